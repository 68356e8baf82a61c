/** A server by TLS that answers in the place of a controller, with a root of its own, and keeps each byte that it is sent. */
import { createServer, type TLSSocket } from "node:tls";
import { createRoot } from "@holdfast/shared/trust/authority";
import { onTestFinished } from "vitest";

export const startImpostor = async (): Promise<{ readonly port: number; readonly heard: readonly Buffer[] }> => {
  const { key, chain } = await createRoot("td.test", Date.now());
  const heard: Buffer[] = [];
  const server = createServer(
    { key, cert: chain.join(""), minVersion: "TLSv1.3", ALPNProtocols: ["h2"] },
    (socket: TLSSocket) => socket.on("data", (bytes: Buffer) => heard.push(bytes)),
  );
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => void server.close());
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : 0, heard };
};
