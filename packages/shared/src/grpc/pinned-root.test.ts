import { once } from "node:events";
import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { findPinnedRoot } from "./pinned-root.ts";

test.each(["127.0.0.1", "::1"])(
  "a proxy at %s is asked for the controller, by an address of IPv6 in its brackets",
  async (host) => {
    const asked: string[] = [];
    const proxy = createServer((socket) => {
      socket.on("data", (bytes) => {
        asked.push(bytes.toString("latin1").split("\r\n")[0] ?? "");
        socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
      });
    }).listen(0, host);
    onTestFinished(() => void proxy.close());
    await once(proxy, "listening");
    const at = proxy.address();
    const port = typeof at === "object" && at !== null ? at.port : 0;
    const wish = { address: "[fd00::1]:7602", pin: "sha256:0", timeoutMs: 10_000 };
    const found = findPinnedRoot({ ...wish, proxy: `http://${host.includes(":") ? `[${host}]` : host}:${port}` });
    await expect(found).rejects.toThrow("the proxy answers 502");
    expect(asked).toEqual(["CONNECT [fd00::1]:7602 HTTP/1.1"]);
  },
);
