//! A request on its way, and what its answer must look like.

use serde_json::{Value, json};

use super::Server;

/// A request that was sent.
pub struct Call<'a> {
    server: &'a Server,
    pub id: Value,
}

impl<'a> Call<'a> {
    pub fn new(server: &'a Server, id: Value) -> Self {
        Call { server, id }
    }
}

impl Call<'_> {
    /// The whole answer.
    pub fn whole(&self) -> Value {
        self.server.answer_to(&self.id)
    }

    /// The result of a request that is no protocol error.
    pub fn result(&self) -> Value {
        let mut answer = self.whole();
        assert_eq!(answer.get("error"), None, "{answer}");
        answer["result"].take()
    }

    /// The body of a tool's result, after checking that the result says the same in each place.
    pub fn body(&self) -> Value {
        let mut result = self.result();
        let text = result["content"][0]["text"]
            .as_str()
            .expect("a text block")
            .to_owned();
        assert_eq!(
            result["content"].as_array().map(Vec::len),
            Some(1),
            "one block"
        );
        let body = result["structuredContent"].take();
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("the text is JSON"),
            body
        );
        let failed = result
            .get("isError")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        assert_eq!(body["ok"], Value::Bool(!failed), "{body}");
        body
    }

    /// The body of a success.
    pub fn ok(&self) -> Value {
        let body = self.body();
        assert_eq!(body["ok"], true, "{body}");
        body
    }

    /// The error of a refusal, after checking that it is fit for a model.
    pub fn refusal(&self) -> Value {
        let mut body = self.body();
        assert_eq!(body["ok"], false, "{body}");
        let error = body["error"].take();
        let message = error["message"].as_str().expect("a message");
        assert!(
            !message.is_empty() && !message.contains('\n'),
            "one line: {message:?}"
        );
        assert!(
            !message.contains("os error"),
            "no text of the operating system: {message:?}"
        );
        assert!(error["code"].is_string(), "{error}");
        error
    }

    /// Whether the answer is there; it stays for whoever takes it.
    pub fn is_answered(&self) -> bool {
        self.server.answers_left(&self.id) > 0
    }

    /// Takes the call back.
    pub fn cancel(&self) {
        self.server.notify(
            "notifications/cancelled",
            json!({"requestId": self.id, "reason": "changed my mind"}),
        );
    }
}

/// Whether the answer is a JSON-RPC error and nothing else.
pub fn is_error(answer: &Value) -> bool {
    answer
        .get("error")
        .is_some_and(|error| error["code"].is_i64() && error["message"].is_string())
        && answer.get("result").is_none()
}
