import { createServer } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createMemoryLogger } from "./log/logger.ts";
import { startTelemetry } from "./telemetry.ts";
import { createTracing } from "./tracing.ts";

/** It answers each request with `status`; 0: never. */
const startCollector = async (status: number) => {
  const collector = { status, asked: 0, givenUp: 0 };
  const server = createServer((request, response) => {
    collector.asked += 1;
    response.on("close", () => {
      if (!response.writableFinished) collector.givenUp += 1;
    });
    request.resume().on("end", () => {
      if (collector.status === 0) return;
      response.writeHead(collector.status, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return Object.assign(collector, { port: (server.address() as { readonly port: number }).port, close });
};

const telemetryTo = (port: number, log: ReturnType<typeof createMemoryLogger>) =>
  startTelemetry({
    ...{ service: "test", version: "0", instance: "i", log, enabled: true, protocol: "http", sampleRatio: 1 },
    endpoint: `http://127.0.0.1:${port}`,
  });

test.each([
  ["silent", 200, ["spans were lost at the end: the collector did not take them in time"]],
  ["known to be away", 400, ["tracing: spans cannot be exported; those until it is back are lost"]],
])("the end of a service does not wait for a collector that is %s", async (_, before, lines) => {
  const collector = await startCollector(before);
  onTestFinished(collector.close);
  const log = createMemoryLogger();
  const telemetry = await telemetryTo(collector.port, log);
  const tracing = createTracing("test");
  await tracing.span("first", {}, async () => undefined);
  await telemetry.flush().catch(() => undefined);
  collector.status = 0;
  await tracing.span("last", {}, async () => undefined);
  await telemetry.shutdown();
  expect(log.lines.map(({ message }) => message)).toEqual(lines);
  // The exporter would have waited on.
  expect(collector.givenUp).toBe(0);
});

test("a collector that is away is one line, and one more when it is back", async () => {
  const collectorAway = await startCollector(400);
  const log = createMemoryLogger();
  const telemetry = await telemetryTo(collectorAway.port, log);
  onTestFinished(async () => {
    await telemetry.shutdown();
    collectorAway.close();
  });
  const told = () =>
    log.lines.map(({ level, message, fields }) => ({ level, message, collector: fields["collector"] }));
  const tracing = createTracing("test");
  const sendOne = async () => {
    const before = collectorAway.asked;
    await tracing.span("x", {}, async () => undefined);
    await telemetry.flush().catch(() => undefined);
    expect(collectorAway.asked).toBeGreaterThan(before);
  };

  const collector = `127.0.0.1:${collectorAway.port}`;
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
  collectorAway.status = 200;
  await sendOne();
  await sendOne();
  expect(told()).toEqual([gone, back]);
  collectorAway.status = 400;
  await sendOne();
  expect(told()).toEqual([gone, back, gone]);
});
