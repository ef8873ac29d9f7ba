// The official TypeScript SDK, 1.x and 2.x, against the binary: sdk.mjs BINARY. A line for each mode.
import assert from "node:assert/strict";
import * as one from "@modelcontextprotocol/sdk/client/index.js";
import * as oneStdio from "@modelcontextprotocol/sdk/client/stdio.js";
import * as two from "@modelcontextprotocol/client";
import * as twoStdio from "@modelcontextprotocol/client/stdio";
import { TOOLS, scenario } from "./scenario.mjs";

const command = process.argv[2];
const implementation = { name: "clients", version: "1" };

async function run(label, revision, client, transport) {
  let negotiated;
  transport.setProtocolVersion = version => { negotiated = version; };
  await client.connect(transport);
  assert.equal(negotiated, revision);
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), TOOLS);
  const pages = await scenario((name, args) => client.callTool({ name, arguments: args }));
  await client.close();
  console.log(`TypeScript SDK ${label} (${revision}): ok, ${pages} pages`);
}

await run("1.x", "2025-11-25", new one.Client(implementation), new oneStdio.StdioClientTransport({ command, args: ["stdio"] }));
for (const [mode, revision] of [["legacy", "2025-11-25"], ["auto", "2026-07-28"], [{ pin: "2026-07-28" }, "2026-07-28"]]) {
  const client = new two.Client(implementation, { versionNegotiation: { mode } });
  const label = `2.x, ${typeof mode === "string" ? mode : "pinned"}`;
  await run(label, revision, client, new twoStdio.StdioClientTransport({ command, args: ["stdio"] }));
}
