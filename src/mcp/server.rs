//! The requests: which are served, and what each tool does with its arguments.
//!
//! Dispatch is by hand, since a refused argument has to come back as a result of the tool, in its own shape. What must hold:
//! - Calls reach the sessions in the order in which they arrived. rmcp spawns a task for each request in order of arrival, the
//!   runtime is a current-thread one whose queue is first in, first out, and nothing is awaited before
//!   [`Handle::write`] is called.
//! - At most [`MAX_CALLS_IN_FLIGHT`] calls at once, readings of resources among them. What is over it is refused at once, never
//!   queued: reading must go on, or cancellations would be stuck behind the calls that they end.
//! - When input has ended, no wait outlasts it: long polls return what there is, a termination gives up its grace.

use std::{
    future::ready,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, Implementation,
        InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    arena::{Page, PageLimits, Unit},
    audit::Client,
    config::limits::{MAX_CALLS_IN_FLIGHT, MAX_LISTENS, MAX_PAGE_RECORDS},
    interactive::Interactive,
    mcp::{
        Settings, args,
        failure::Failure,
        progress::Progress,
        reply, resources, session,
        subscriptions::{self, Subscriptions},
        tools,
        transport::Notices,
        unserved,
        wire::Arguments,
    },
    supervisor::{
        follow::{ReadRequest, Until},
        handle::{Handle, StartRequest},
        refusal::Code,
        search::Purpose,
    },
};

/// Answer to a call over the bound. In the range that JSON-RPC leaves to servers, and none of the codes that MCP or its SDKs
/// gave a meaning.
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32_029);
/// Page buffers kept for reuse. More are made while more reads are under way.
const KEPT_PAGES: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Server {
    handle: Handle,
    settings: Settings,
    /// One permit for each call that may be in flight.
    pub(super) calls: Semaphore,
    pages: Mutex<Vec<Page>>,
    notices: Notices,
    subscriptions: Subscriptions,
    /// One permit for each request that may listen.
    listens: Semaphore,
    /// The session tools, when they are on.
    sessions: Option<session::Calls>,
    /// Cancelled when input ends.
    eof: CancellationToken,
}

impl Server {
    pub(super) fn new(
        handle: Handle,
        settings: Settings,
        notices: Notices,
        eof: CancellationToken,
    ) -> Self {
        let sessions = settings.toolsets.session.then(|| {
            let interactive =
                Interactive::new(handle.clone(), settings.session.clone(), settings.access);
            session::Calls::new(interactive, settings.results)
        });
        Self {
            handle,
            sessions,
            settings,
            calls: Semaphore::new(MAX_CALLS_IN_FLIGHT),
            pages: Mutex::default(),
            notices,
            subscriptions: Subscriptions::default(),
            listens: Semaphore::new(MAX_LISTENS),
            eof,
        }
    }

    async fn start(
        &self,
        arguments: Option<&str>,
        client: Option<Client>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Failure> {
        let arguments: args::Start = args::read(arguments)?;
        let timeout = arguments.timeout(self.settings.limits.max_timeout_ms)?;
        let wait = arguments.wait();
        let request = StartRequest {
            command_id: arguments.command_id,
            cwd: arguments.cwd,
            env: arguments.env.0,
            timeout,
            client,
            input: arguments.input,
            close_stdin: arguments.close_stdin,
            wait,
            terminal: None,
        };
        let (begin, begun) = oneshot::channel();
        let start = self.handle.start(
            request,
            |id| drop(begin.send(id.to_owned())),
            context.ct.cancelled(),
            self.eof.cancelled(),
        );
        let started = self.progress(context).during(start, begun).await?;
        Ok(reply::started(&started, self.settings.results))
    }

    async fn read(
        &self,
        arguments: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Failure> {
        let arguments: args::Read = args::read(arguments)?;
        arguments.check()?;
        let session = ready(Ok(arguments.session_id.clone()));
        let read = self
            .progress(context)
            .during(self.read_as(&arguments), session);
        tokio::select! {
            biased;
            // Nobody gets the answer any more, and nothing is to be searched for it.
            () = context.ct.cancelled() => Ok(CallToolResult::default()),
            result = read => result,
        }
    }

    async fn read_as(&self, arguments: &args::Read) -> Result<CallToolResult, Failure> {
        let (session_id, shown) = (&arguments.session_id, arguments.until.as_ref());
        let cut_short = self.eof.cancelled();
        if let Some(find) = &arguments.find {
            let pattern = find.pattern.clone();
            let search = self
                .handle
                .prepare(Purpose::Find, pattern, find.ignore_case)
                .await?;
            let limits = find.limits(arguments.bytes());
            let found = self
                .handle
                .find(session_id, arguments.first(), limits, search, cut_short)
                .await?;
            return Ok(reply::found(&found, self.settings.results));
        }
        let until = match shown {
            None | Some(args::Until::Record) => Until::Record,
            Some(args::Until::End) => Until::End,
            Some(args::Until::Idle(quiet)) => Until::Idle(*quiet),
            Some(args::Until::Pattern(pattern)) => {
                let search = self.handle.prepare(Purpose::Wait, pattern.clone(), false);
                Until::Pattern(Box::new(search.await?))
            }
        };
        let unit = Unit::from(arguments.records);
        let request = ReadRequest {
            place: arguments.place(),
            limits: PageLimits {
                bytes: arguments.bytes(),
                records: MAX_PAGE_RECORDS,
                unit,
            },
            until,
            wait: arguments.wait(),
        };
        if arguments.view == args::View::Plain {
            let read = self
                .handle
                .read_plain(session_id, request, cut_short)
                .await?;
            return Ok(reply::plain(&read, shown, self.settings.results));
        }
        let mut page = self.pages().pop().unwrap_or_default();
        let outcome = self
            .handle
            .read(session_id, request, cut_short, &mut page)
            .await;
        let result =
            outcome.map(|reading| reply::page(&page, &reading, shown, unit, self.settings.results));
        let mut pages = self.pages();
        if pages.len() < KEPT_PAGES {
            pages.push(page);
        }
        Ok(result?)
    }

    async fn write(
        &self,
        arguments: Option<&str>,
        client: Option<Client>,
        cancelled: &CancellationToken,
    ) -> Result<CallToolResult, Failure> {
        let arguments: args::Write = args::read(arguments)?;
        let outcome = self.handle.write(
            &arguments.session_id,
            arguments.text,
            arguments.close_stdin,
            client,
            cancelled.cancelled(),
        );
        let written = outcome.await?;
        Ok(reply::written(
            &arguments.session_id,
            written,
            self.settings.results,
        ))
    }

    fn status(&self, arguments: Option<&str>) -> Result<CallToolResult, Failure> {
        let arguments: args::Status = args::read(arguments)?;
        let Some(session_id) = arguments.session_id else {
            let sessions = self.handle.sessions();
            return Ok(reply::sessions(&sessions, &self.settings));
        };
        let snapshot = self.handle.status(&session_id)?;
        Ok(reply::snapshot(&snapshot, self.settings.results))
    }

    async fn terminate(
        &self,
        arguments: Option<&str>,
        client: Option<Client>,
    ) -> Result<CallToolResult, Failure> {
        let arguments: args::Terminate = args::read(arguments)?;
        let (session, grace) = (
            &arguments.session_id,
            Duration::from_millis(arguments.grace_ms.0),
        );
        let ended = self
            .handle
            .terminate(session, grace, client, self.eof.cancelled());
        let snapshot = ended.await?;
        Ok(reply::snapshot(&snapshot, self.settings.results))
    }

    fn resize(&self, arguments: Option<&str>) -> Result<CallToolResult, Failure> {
        let arguments: args::Resize = args::read(arguments)?;
        let size = arguments.size();
        self.handle.resize(&arguments.session_id, size)?;
        Ok(reply::resized(
            &arguments.session_id,
            size,
            self.settings.results,
        ))
    }

    /// The tools with their schemas: some 200 KiB, which are asked for once, so they aren't kept.
    fn tools(&self) -> Vec<Tool> {
        let mut tools = Vec::new();
        if self.settings.toolsets.terminal {
            tools.extend(tools::list(&self.settings));
        }
        if self.settings.toolsets.session {
            tools.extend(session::list(&self.settings));
        }
        tools
    }

    /// A place among the calls that are in flight.
    fn place(&self) -> Result<SemaphorePermit<'_>, ErrorData> {
        self.calls.try_acquire().map_err(|_| {
            let message = format!(
                "{MAX_CALLS_IN_FLIGHT} calls are in flight, as many as may; call again when one is answered"
            );
            ErrorData::new(TOO_MANY_CALLS, message, None)
        })
    }

    /// What tells the caller how far its call is.
    fn progress(&self, context: &RequestContext<RoleServer>) -> Progress<'_> {
        let token = context.meta.get_progress_token();
        Progress::new(&self.handle, &self.notices, token)
    }

    /// Who calls, by its own account: the handshake's, or in the stateless revision the request's. For the log only.
    fn client(&self, context: &RequestContext<RoleServer>) -> Option<Client> {
        self.handle
            .log()
            .is_on()
            .then(|| context.client_info())
            .flatten()
            .map(|client| Client::new(&client.name, &client.version))
    }

    /// What a client is told about the tools that it has.
    fn instructions(&self) -> String {
        let sets = self.settings.toolsets;
        let texts = [
            (sets.terminal, tools::INSTRUCTIONS),
            (sets.session, session::INSTRUCTIONS),
        ];
        let told = texts.into_iter().filter(|(is_on, _)| *is_on);
        told.map(|(_, text)| text).collect::<Vec<_>>().join("\n")
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Vec<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The protocol's error for a tool that there isn't; one of a set that is off is none.
fn unknown(tool: &str) -> ErrorData {
    ErrorData::invalid_params(args::one_line(&format!("unknown tool: {tool}")), None)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("sluicegate", env!("CARGO_PKG_VERSION"))
                    .with_title("sluicegate"),
            )
            .with_instructions(self.instructions())
    }

    /// Keeps the version that was agreed on rather than the one asked for: rmcp shapes later results by it.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        let agreed = request.with_protocol_version(result.protocol_version.clone());
        context.peer.set_peer_info(agreed);
        Ok(result)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _in_flight = self.place()?;
        Ok(resources::list(&self.handle.sessions(), &self.settings))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _in_flight = self.place()?;
        tokio::select! {
            biased;
            // Nobody gets the answer any more.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            read = resources::read(&self.handle, &request.uri) => Ok(read?.into()),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions
            .subscribe(&self.handle, &self.notices, &request.uri)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted(&self.handle, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_listening) = self.listens.try_acquire() else {
            let message = format!(
                "{MAX_LISTENS} requests listen, as many as may; cancel one, and name all sessions in another"
            );
            return Err(ErrorData::new(TOO_MANY_CALLS, message, None));
        };
        subscriptions::listen(&self.handle, context, &self.eof).await;
        Ok(())
    }

    /// # Cancel safety
    ///
    /// rmcp never drops this future; it cancels `context.ct` and drops the answer.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = context.extensions.get::<Arguments>();
        let arguments = arguments.map(|arguments| arguments.0.get());
        let tool = request.name.as_ref();
        let _in_flight = self.place().inspect_err(|_| {
            let client = self.client(&context);
            let code = Code::TooManyCalls.as_str();
            unserved::log(self.handle.log(), tool, arguments, client.as_ref(), code);
        })?;
        tracing::debug!(tool = %request.name, id = %context.id, "call");
        let client = || self.client(&context);
        if let Some(sessions) = &self.sessions
            && session::has(tool)
        {
            let call = session::Call {
                tool,
                arguments,
                client: client(),
                log: self.handle.log(),
                cancelled: &context.ct,
                eof: &self.eof,
            };
            return Ok(sessions.result(call).await.into());
        }
        let outcome = match tool {
            _ if !self.settings.toolsets.terminal => return Err(unknown(tool)),
            tools::START => self.start(arguments, client(), &context).await,
            tools::READ => self.read(arguments, &context).await,
            tools::WRITE => self.write(arguments, client(), &context.ct).await,
            tools::STATUS => self.status(arguments),
            tools::TERMINATE => self.terminate(arguments, client()).await,
            tools::RESIZE if tools::has_resize(&self.settings) => self.resize(arguments),
            other => return Err(unknown(other)),
        };
        match &outcome {
            Err(failure) if failure.code == Code::InvalidArgument => {
                let code = failure.code.as_str();
                unserved::log(self.handle.log(), tool, arguments, client().as_ref(), code);
            }
            Err(failure) if failure.code == Code::TooManyCalls => {
                return Err(ErrorData::new(
                    TOO_MANY_CALLS,
                    failure.message.clone(),
                    None,
                ));
            }
            _ => {}
        }
        let result =
            outcome.unwrap_or_else(|failure| reply::failure(&failure, self.settings.results));
        Ok(result.into())
    }
}
