//! Between lines and messages: what a frame means, and how a message is written.
//!
//! Reading, one rule: a line that is a request and can't be served is answered with an error under its own id; a line
//! without a usable id (a string or an integer) is never answered, and neither is a reply. Official SDKs do no more than log
//! an error without an id, and two programs that answer each other's garbage would never stop.
//!
//! `tools/call` is read here, everything else by rmcp: the arguments stay raw text, so that they can be refused by name
//! later (a number like `1e400` or a repeated name doesn't survive a map), and no map is built for them.
//!
//! Writing: a tool's body is JSON text, serialised once. It goes out escaped in the text block and verbatim as
//! `structuredContent`, which keeps its key order and spares a second pass. rmcp carries it from the handler to here as a
//! result whose `structured_content` is the empty object and whose first block is the body: no other result looks like that.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientJsonRpcMessage, ClientRequest,
    ContentBlock, ErrorData, JsonObject, JsonRpcMessage, JsonRpcResponse, RequestId,
    RequestMetaObject, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    config::{Results, limits::MAX_FRAME_BYTES},
    mcp::{frame::Frame, id_scan::IdScan, json_string},
};

/// The raw text of `arguments` of one call. rmcp hands it to the handler among the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Arguments(pub(super) Arc<RawValue>);

/// What a frame asks for.
#[derive(Debug)]
pub(super) enum Incoming {
    /// For rmcp.
    Message(Box<ClientJsonRpcMessage>),
    /// To be answered at once.
    Refused(RequestId, ErrorData),
    /// Nothing.
    Ignored,
}

/// The members of a message, uninterpreted. `null` counts as absent.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default, rename = "_meta")]
    meta: Option<JsonObject>,
}

/// Requests that rmcp knows and this server answers. rmcp takes one whose params don't fit for an unknown method.
const KNOWN: [&str; 10] = [
    "initialize",
    "ping",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/list",
];

/// Reads one frame.
pub(super) fn read(frame: Frame<'_>) -> Incoming {
    let line = match frame {
        Frame::Line(line) => line,
        Frame::TooLong(id) => {
            return refused(id, || {
                ErrorData::invalid_request(format!("frame exceeds {MAX_FRAME_BYTES} bytes"), None)
            });
        }
    };
    let envelope: Envelope<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) => {
            return refused(IdScan::of(line), || {
                if error.is_data() {
                    ErrorData::invalid_request("not a JSON-RPC message", None)
                } else {
                    ErrorData::parse_error("not valid JSON", None)
                }
            });
        }
    };
    let Some(method) = envelope.method else {
        return rmcp_message(line).map_or(Incoming::Ignored, Incoming::Message);
    };
    let Some(id) = envelope.id else {
        return rmcp_message(line).map_or(Incoming::Ignored, Incoming::Message);
    };
    let Ok(id) = serde_json::from_str::<RequestId>(id.get()) else {
        return Incoming::Ignored;
    };
    if envelope
        .jsonrpc
        .is_none_or(|version| version.get() != r#""2.0""#)
    {
        return Incoming::Refused(
            id,
            ErrorData::invalid_request("jsonrpc must be \"2.0\"", None),
        );
    }
    let Ok(method) = serde_json::from_str::<String>(method.get()) else {
        return Incoming::Refused(
            id,
            ErrorData::invalid_request("method must be a string", None),
        );
    };
    if method == "tools/call" {
        return match call(envelope.params) {
            Some(call) => {
                let request = ClientRequest::CallToolRequest(call);
                Incoming::Message(Box::new(JsonRpcMessage::request(request, id)))
            }
            None => Incoming::Refused(
                id,
                ErrorData::invalid_params("tools/call needs params with a name", None),
            ),
        };
    }
    let message = rmcp_message(line);
    let misread = message.as_deref().is_none_or(|message| {
        matches!(message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::CustomRequest(_)))
    });
    match message {
        _ if misread && KNOWN.contains(&method.as_str()) => Incoming::Refused(
            id,
            ErrorData::invalid_params(format!("params do not fit {method}"), None),
        ),
        Some(message) => Incoming::Message(message),
        None => Incoming::Refused(
            id,
            ErrorData::invalid_request("not a JSON-RPC request", None),
        ),
    }
}

fn refused(id: Option<RequestId>, error: impl FnOnce() -> ErrorData) -> Incoming {
    id.map_or(Incoming::Ignored, |id| Incoming::Refused(id, error()))
}

fn rmcp_message(line: &[u8]) -> Option<Box<ClientJsonRpcMessage>> {
    serde_json::from_slice(line).ok().map(Box::new)
}

fn call(params: Option<&RawValue>) -> Option<CallToolRequest> {
    let params: CallParams<'_> = serde_json::from_str(params?.get()).ok()?;
    let mut request = CallToolRequest::new(CallToolRequestParams::new(params.name));
    if let Some(arguments) = params.arguments {
        let arguments: Box<RawValue> = arguments.to_owned();
        request.extensions.insert(Arguments(arguments.into()));
    }
    if let Some(meta) = params.meta {
        request.extensions.insert(RequestMetaObject::from(meta));
    }
    Some(request)
}

/// A tool's result, for [`write`] to lay out. `summary` is the text block when `structuredContent` alone carries the body.
pub(super) fn result(body: String, summary: Option<String>, is_error: bool) -> CallToolResult {
    let mut content = vec![ContentBlock::text(body)];
    content.extend(summary.map(ContentBlock::text));
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(serde_json::Value::Object(JsonObject::new()));
    result.is_error = Some(is_error);
    result
}

/// The body and the summary of a result made by [`result`].
fn marked(result: &CallToolResult) -> Option<(&str, Option<&str>)> {
    let is_marked = result
        .structured_content
        .as_ref()
        .and_then(serde_json::Value::as_object)
        .is_some_and(JsonObject::is_empty);
    let mut blocks = result.content.iter().map(ContentBlock::as_text);
    let body = blocks.next().flatten().filter(|_| is_marked)?;
    let summary = blocks.next().flatten().map(|block| block.text.as_str());
    Some((&body.text, summary))
}

/// Appends `message` and a newline to `out`.
pub(super) fn write(message: &ServerJsonRpcMessage, layout: Results, out: &mut Vec<u8>) {
    match message {
        JsonRpcMessage::Response(JsonRpcResponse {
            id,
            result: ServerResult::CallToolResult(result),
            ..
        }) if let Some((body, summary)) = marked(result) => {
            write_result(id, result, body, summary, layout, out);
        }
        message => json(message, out),
    }
    out.push(b'\n');
}

fn write_result(
    id: &RequestId,
    result: &CallToolResult,
    body: &str,
    summary: Option<&str>,
    layout: Results,
    out: &mut Vec<u8>,
) {
    // Room for both copies with an escape every eighth byte: text of lines and quotes needs no growth.
    out.reserve(2 * body.len() + body.len() / 8 + 256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json(id, out);
    out.extend_from_slice(br#","result":{"#);
    if let Some(result_type) = &result.result_type {
        out.extend_from_slice(br#""resultType":"#);
        json(result_type, out);
        out.push(b',');
    }
    out.extend_from_slice(br#""content":[{"type":"text","text":"#);
    let text = match layout {
        Results::Both | Results::Text => body,
        Results::Structured => summary.unwrap_or(body),
    };
    json_string::push(text, out);
    out.extend_from_slice(b"}]");
    if layout != Results::Text {
        out.extend_from_slice(br#","structuredContent":"#);
        out.extend_from_slice(body.as_bytes());
    }
    out.extend_from_slice(br#","isError":"#);
    json(&result.is_error.unwrap_or(false), out);
    out.extend_from_slice(b"}}");
}

fn json(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("messages are plain data, and a vector takes any write");
}

/// The error message under `id`, as [`write`] takes it.
pub(super) fn error(id: RequestId, error: ErrorData) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(error, Some(id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn line(text: &str) -> Incoming {
        read(Frame::Line(text.as_bytes()))
    }

    #[test]
    fn what_cannot_be_served_is_answered_under_its_id_or_not_at_all() {
        let refused: &[(&str, i32)] = &[
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, -32700),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#,
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#,
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":7}"#,
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#,
                -32602,
            ),
        ];
        for (text, code) in refused {
            match line(text) {
                Incoming::Refused(id, error) => {
                    assert_eq!(id, RequestId::Number(1), "{text}");
                    assert_eq!(error.code.0, *code, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in [
            "not json",
            "{",
            "[]",
            "\"\"",
            "7",
            "{}",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":7}"#,
            r#"{"jsonrpc":"2.0","method":7}"#,
        ] {
            assert!(matches!(line(text), Incoming::Ignored), "{text}");
        }
        assert!(matches!(
            read(Frame::TooLong(Some(RequestId::Number(3)))),
            Incoming::Refused(RequestId::Number(3), error) if error.code.0 == -32600
        ));
        assert!(matches!(read(Frame::TooLong(None)), Incoming::Ignored));
    }

    #[test]
    fn messages_reach_rmcp() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"unknown/method","params":{"x":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        ] {
            assert!(matches!(line(text), Incoming::Message(_)), "{text}");
        }
    }

    #[test]
    fn a_call_keeps_its_arguments_raw_and_its_meta() {
        let text = r#"{"method":"tools/call","params":{"arguments":{"a":1e400,"a":[ ]},"name":"t","_meta":{"k":1}},"jsonrpc":"2.0","id":1}"#;
        let Incoming::Message(message) = line(text) else {
            panic!("not a message");
        };
        let (ClientRequest::CallToolRequest(request), _) = message.into_request().unwrap() else {
            panic!("not a call");
        };
        assert_eq!(request.params.name, "t");
        let arguments = request.extensions.get::<Arguments>().unwrap();
        assert_eq!(arguments.0.get(), r#"{"a":1e400,"a":[ ]}"#);
        let meta = request.extensions.get::<RequestMetaObject>().unwrap();
        assert_eq!(meta.0.0["k"], 1);
    }

    fn reply(body: &str, layout: Results, is_error: bool) -> String {
        let result = result(body.to_owned(), Some("one line".to_owned()), is_error);
        let message = JsonRpcMessage::response(
            ServerResult::CallToolResult(result),
            RequestId::String("i\"d".into()),
        );
        let mut out = Vec::new();
        write(&message, layout, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_layout_has_its_copies_of_the_body() {
        let body = r#"{"z":1,"a":"x"}"#;
        let head = r#"{"jsonrpc":"2.0","id":"i\"d","result":{"resultType":"complete","content":[{"type":"text","text":"#;
        assert_eq!(
            reply(body, Results::Both, false),
            format!(
                "{head}{}}}],\"structuredContent\":{body},\"isError\":false}}}}\n",
                json!(body)
            )
        );
        assert_eq!(
            reply(body, Results::Structured, true),
            format!("{head}\"one line\"}}],\"structuredContent\":{body},\"isError\":true}}}}\n")
        );
        assert_eq!(
            reply(body, Results::Text, false),
            format!("{head}{}}}],\"isError\":false}}}}\n", json!(body))
        );
    }

    #[test]
    fn other_messages_are_written_as_rmcp_writes_them() {
        let message = error(
            RequestId::Number(4),
            ErrorData::invalid_params("unknown tool", None),
        );
        let mut out = Vec::new();
        write(&message, Results::Both, &mut out);
        assert_eq!(
            out,
            b"{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32602,\"message\":\"unknown tool\"}}\n"
        );
    }

    proptest! {
        #[test]
        fn both_copies_of_any_text_are_what_plain_serde_json_gives(
            text in prop_oneof![any::<String>(), "[\\x00-\\x1f\"\\\\\u{7f}a\u{e9}\u{4e2d}\u{1f600}]{0,200}"],
            is_error in any::<bool>(),
        ) {
            let body = serde_json::to_string(&json!({ "ok": true, "text": text })).unwrap();
            let line = reply(&body, Results::Both, is_error);
            prop_assert_eq!(line.matches('\n').count(), 1);
            let parsed: Value = serde_json::from_str(&line).unwrap();
            let plain = serde_json::to_value(CallToolResult::structured(json!({ "ok": true, "text": text }))).unwrap();
            prop_assert_eq!(&parsed["result"]["structuredContent"], &plain["structuredContent"]);
            let block = parsed["result"]["content"][0]["text"].as_str().unwrap();
            let copy: Value = serde_json::from_str(block).unwrap();
            prop_assert_eq!(&copy, &plain["structuredContent"]);
            prop_assert_eq!(parsed["result"]["isError"].as_bool(), Some(is_error));
        }
    }
}
