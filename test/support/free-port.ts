import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below those that the kernel gives to connections that go out: one of these could take it before its server does, or between two lives. */
const [lowestPort, ports] = [10_000, 22_000];

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });

export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = lowestPort + randomInt(ports);
    if (await isFree(port)) return port;
  }
};
