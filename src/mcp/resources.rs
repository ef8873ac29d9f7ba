//! Sessions as resources: the end of each one's output, as a terminal would show it.

use rmcp::{
    ErrorData,
    model::{
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate,
    },
};
use serde_json::json;

use crate::{
    config::limits::RESOURCE_BYTES,
    mcp::{Settings, args},
    session::snapshot::Snapshot,
    supervisor::handle::Handle,
};

const TEMPLATE: &str = "terminal://session/{session_id}/output";
const MIME_TYPE: &str = "text/plain";
const DESCRIPTION: &str =
    "What a session printed last, at most 256 KiB of it, as a terminal would show it.";

/// The URI of a session's output.
pub(super) fn uri(session_id: &str) -> String {
    TEMPLATE.replace("{session_id}", session_id)
}

/// The session whose output the URI names.
pub(super) fn session_id(uri: &str) -> Option<&str> {
    let (before, after) = TEMPLATE.split_once("{session_id}")?;
    uri.strip_prefix(before)?.strip_suffix(after)
}

/// These sessions' outputs, in this order.
pub(super) fn list(sessions: &[Snapshot], settings: &Settings) -> ListResourcesResult {
    let resource = |snapshot: &Snapshot| {
        let (id, status) = (&snapshot.session_id, snapshot.status.as_str());
        let resource = Resource::new(uri(id), &snapshot.command_id)
            .with_title(format!("Output of {} ({status})", snapshot.command_id))
            .with_mime_type(MIME_TYPE);
        match settings.description(&snapshot.command_id) {
            Some(description) => resource.with_description(description),
            None => resource,
        }
    };
    ListResourcesResult::with_all_items(sessions.iter().map(resource).collect())
}

/// How such URIs are made.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(TEMPLATE, "output")
        .with_title("Output of a session")
        .with_description(DESCRIPTION)
        .with_mime_type(MIME_TYPE);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Reads the output that the URI names.
///
/// # Errors
///
/// There is no such session.
pub(super) async fn read(handle: &Handle, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = session_id(uri).ok_or_else(|| not_found(uri))?;
    let text = handle.tail_plain(id, RESOURCE_BYTES).await;
    // The one reason to refuse it.
    let text = text.map_err(|_| not_found(uri))?;
    Ok(ReadResourceResult::new(vec![
        ResourceContents::text(text, uri).with_mime_type(MIME_TYPE),
    ]))
}

/// The error that such a URI is answered with.
pub(super) fn not_found(uri: &str) -> ErrorData {
    let uri = args::one_line(uri);
    let message = format!("no such resource: {uri}; resources/list has those that there are");
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_the_session_that_it_was_made_of() {
        assert_eq!(uri("0a1b"), "terminal://session/0a1b/output");
        assert_eq!(session_id(&uri("0a1b")), Some("0a1b"));
        for uri in [
            "",
            "terminal://session/0a1b",
            "terminal://session/0a1b/input",
            "TERMINAL://session/0a1b/output",
            "file:///session/0a1b/output",
            "terminal://session/output",
        ] {
            assert_eq!(session_id(uri), None, "{uri}");
        }
    }
}
