import { mkdirSync, writeFileSync } from "node:fs";
import http2 from "node:http2";
import { createServer } from "node:https";
import path from "node:path";
import type { TLSSocket } from "node:tls";
import { trace } from "@opentelemetry/api";
import { expect, onTestFinished, test } from "vitest";
import { createMemoryLogger } from "./log/logger.ts";
import { startTelemetry, type TelemetryOptions } from "./telemetry.ts";
import { tempDirectory } from "./testing/certified.ts";
import { createTestAuthority } from "./testing/test-authority.ts";

const localhost = { names: [{ type: "dns", value: "localhost" }] } as const;

/** Collectors that demand a certificate of their authority, and say whose they saw. */
const collector = async (protocol: "grpc" | "http") => {
  const authority = await createTestAuthority();
  const own = await authority.issue({ names: [...localhost.names] });
  const tls = {
    cert: own.certificate,
    key: own.key,
    ca: authority.root,
    requestCert: true,
    minVersion: "TLSv1.3",
  } as const;
  const seen: string[] = [];
  const note = (socket: TLSSocket) => void seen.push(socket.getPeerX509Certificate()?.serialNumber ?? "none");
  const server =
    protocol === "http"
      ? createServer(tls, (request, response) => {
          request.resume();
          request.on("end", () => response.end("{}"));
        })
      : http2.createSecureServer(tls);
  server.on("secureConnection", note);
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const client = async (serial: string, by = authority) => {
    const directory = tempDirectory();
    mkdirSync(directory, { recursive: true });
    const leaf = await by.issue({ serial, path: "csi/controller/c1" });
    const file = (name: string, text: string) => {
      writeFileSync(path.join(directory, name), text);
      return path.join(directory, name);
    };
    return {
      otlpCaFile: file("ca", authority.root),
      otlpCertFile: file("cert", leaf.certificate),
      otlpKeyFile: file("key", leaf.key),
    };
  };
  return { endpoint: `https://localhost:${port}`, seen, client };
};

const telling = async (options: Partial<TelemetryOptions>) => {
  const telemetry = await startTelemetry({
    ...{ service: "t", version: "0", instance: "i", enabled: true, protocol: "http", sampleRatio: 1 },
    log: createMemoryLogger(),
    ...options,
  });
  onTestFinished(telemetry.shutdown);
  trace.getTracer("t").startSpan("one").end();
  // A collector that is none answers nothing; that the connection came is enough.
  telemetry.flush().catch(() => undefined);
};

test.each(["http", "grpc"] as const)(
  "spans go over TLS by %s, with a certificate, to a collector of the authority",
  async (protocol) => {
    const { endpoint, seen, client } = await collector(protocol);
    await telling({ protocol, endpoint, ...(await client("00c0de")) });
    await expect.poll(() => seen).toContain("C0DE");
  },
);

test.each(["http", "grpc"] as const)("and not by %s to one of another authority", async (protocol) => {
  const [here, elsewhere] = [await collector(protocol), await collector(protocol)];
  await telling({ protocol, endpoint: elsewhere.endpoint, ...(await here.client("00c0de")) });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(elsewhere.seen).not.toContain("C0DE");
});

test.each([
  [{ otlpCaFile: "/ca" }, /HOLDFAST_OTLP_CA_FILE.*https/],
  [{ endpoint: "http://h:1", otlpCaFile: "/ca" }, /HOLDFAST_OTLP_CA_FILE.*https/],
  [{ endpoint: "https://h:1", otlpCertFile: "/cert" }, /HOLDFAST_OTLP_CERT_FILE.*HOLDFAST_OTLP_KEY_FILE/],
  [{ endpoint: "https://h:1", otlpKeyFile: "/key" }, /HOLDFAST_OTLP_KEY_FILE.*HOLDFAST_OTLP_CERT_FILE/],
  [{ endpoint: "https://h:1", otlpCaFile: "/nowhere/ca" }, /HOLDFAST_OTLP_CA_FILE.*cannot be read/],
])("files that would do nothing are refused: %j", async (options, words) => {
  await expect(telling(options)).rejects.toThrow(words);
});
