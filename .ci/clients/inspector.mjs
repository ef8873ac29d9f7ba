// The inspector's two command lines against the binary: inspector.mjs BINARY. The first starts a server for each call,
// the second keeps one between its calls, in a daemon of its own.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { TOOLS, refused, scenario, success } from "./scenario.mjs";

const binary = process.argv[2];
const bin = path.resolve("node_modules/.bin");
const TOOL_IS_ERROR = 5;

/** Runs a command of the inspector and answers what it printed. */
function run(command, args, expected = [0]) {
  const result = spawnSync(process.execPath, [path.join(bin, command), ...args], { encoding: "utf8" });
  assert.ok(expected.includes(result.status), `${command} ${args.join(" ")}: ${result.status}\n${result.stderr}`);
  return result.stdout;
}

for (const era of ["legacy", "modern"]) {
  const once = (args, expected) =>
    JSON.parse(run("mcp-inspector", ["--cli", "--protocol-era", era, binary, "stdio", ...args], expected));
  const start = args => ["--method", "tools/call", "--tool-name", "terminal_start", "--tool-args-json", JSON.stringify(args)];
  // --strict fails where a schema of a tool is wrong.
  assert.deepEqual(once(["--method", "tools/list", "--strict"]).tools.map(({ name }) => name), TOOLS);
  assert.equal(success(once(start({ command_id: "exit7", wait_ms: 30000 }))).exit_code, 7);
  refused(once(start({ command_id: "unknown" }), [TOOL_IS_ERROR]));
  console.log(`inspector --cli, ${era}: ok`);
}

const keep = (args, expected) => run("mcpdo", ["--format", "json", "--connection", "gate", ...args], expected);
try {
  keep(["connect", binary, "stdio"]);
  assert.deepEqual(JSON.parse(keep(["tools/list"])).tools.map(({ name }) => name), TOOLS);
  const pages = await scenario((tool, args) => {
    const pairs = Object.entries(args).map(([name, value]) => `${name}:=${JSON.stringify(value)}`);
    return JSON.parse(keep(["tools/call", tool, ...pairs], [0, TOOL_IS_ERROR]));
  });
  console.log(`inspector mcpdo: ok, ${pages} pages`);
} finally {
  if (existsSync(process.env.MCP_INSPECTOR_DAEMON_DIR)) run("mcpdo", ["daemon", "stop"]);
}
