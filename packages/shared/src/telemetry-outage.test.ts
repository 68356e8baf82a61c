import { createServer } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createMemoryLogger } from "./log/logger.ts";
import { startTelemetry } from "./telemetry.ts";
import { createTracing } from "./tracing.ts";

test("a collector that is away is one line, and one more when it is back", async () => {
  let status = 400;
  let asked = 0;
  const server = createServer((request, response) => {
    asked += 1;
    request.resume().on("end", () => response.writeHead(status, { "content-type": "application/json" }).end("{}"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  const log = createMemoryLogger();
  const who = { service: "test", version: "0", instance: "i", log } as const;
  const endpoint = `http://127.0.0.1:${port}`;
  const telemetry = await startTelemetry({ ...who, enabled: true, endpoint, protocol: "http", sampleRatio: 1 });
  onTestFinished(async () => {
    await telemetry.shutdown();
    server.closeAllConnections();
    server.close();
  });
  const told = () =>
    log.lines.map(({ level, message, fields }) => ({ level, message, collector: fields["collector"] }));
  const tracing = createTracing("test");
  const sendOne = async () => {
    const before = asked;
    await tracing.span("x", {}, async () => undefined);
    await telemetry.flush().catch(() => undefined);
    expect(asked).toBeGreaterThan(before);
  };

  const collector = `127.0.0.1:${port}`;
  const gone = {
    level: "warn",
    message: "tracing: spans cannot be exported; those until it is back are lost",
    collector,
  };
  const back = { level: "info", message: "tracing: spans are exported again", collector };
  await sendOne();
  await sendOne();
  await sendOne();
  expect(told()).toEqual([gone]);
  expect(log.lines[0]?.fields["detail"]).not.toMatch(/stack|\n/);
  status = 200;
  await sendOne();
  await sendOne();
  expect(told()).toEqual([gone, back]);
  status = 400;
  await sendOne();
  expect(told()).toEqual([gone, back, gone]);
});
