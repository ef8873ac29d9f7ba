// What each client in JavaScript has to bring about. `call(tool, arguments)` answers {isError, structuredContent}.
import assert from "node:assert/strict";

export const TOOLS = ["terminal_start", "terminal_read", "terminal_write", "terminal_status", "terminal_terminate"];

/** Runs a job to its end, reads it again page by page, and has an unknown command refused. Answers the pages' number. */
export async function scenario(call) {
  const started = success(await call("terminal_start", { command_id: "stream", wait_ms: 30000 }));
  assert.equal(started.status, "EXITED");
  assert.equal(started.exit_code, 0);
  assert.equal(started.output_complete, true);
  assert.equal(started.output.omitted, null);
  const output = texts(started.output.records);
  assert.deepEqual(output.map(text => text.split("\n").length - 1), [20, 20]);

  const { session_id } = started;
  const records = [];
  let pages = 0;
  for (let cursor = 0, ended = false; !ended; ) {
    // Pages smaller than the output.
    const page = success(await call("terminal_read", { session_id, cursor, max_bytes: 256, wait_ms: 2000 }));
    records.push(...page.records);
    cursor = page.next_cursor;
    pages += 1;
    ended = !page.has_more && (page.output_complete || page.output_incomplete);
  }
  assert.ok(pages > 1);
  assert.deepEqual(texts(records), output);

  refused(await call("terminal_start", { command_id: "unknown" }));
  return pages;
}

/** The body of a result that must be a success. */
export function success(result) {
  assert.ok(!result.isError, JSON.stringify(result));
  assert.equal(result.structuredContent.ok, true);
  return result.structuredContent;
}

/** The error of an unknown command has to be readable. */
export function refused(result) {
  assert.equal(result.isError, true);
  assert.equal(result.structuredContent.ok, false);
  assert.equal(result.structuredContent.error.code, "COMMAND_NOT_FOUND");
  assert.ok(result.structuredContent.error.message);
}

function texts(records) {
  return ["stdout", "stderr"].map(name =>
    records.filter(({ stream }) => stream === name).map(({ text }) => text).join(""));
}
