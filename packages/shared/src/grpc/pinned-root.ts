/**
 * Finds the root of a server by the pin that came with a token, for a host that does not have this root yet.
 *
 * PR1 This connection shows who would answer, and carries nothing: it ends when the certificates are there.
 * PR2 What is answered has the pinned key. Whether the server's certificate leads to it is judged by TLS, on the next connection.
 */
import { X509Certificate } from "node:crypto";
import { request } from "node:http";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type DetailedPeerCertificate } from "node:tls";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { pinOf } from "../trust/authority.ts";
import { bareHost, formatAddress, parseAddress } from "./listen-address.ts";

export interface PinnedRootWish {
  readonly address: string;
  readonly pin: string;
  /** http://host:port of the HTTP proxy to go through. */
  readonly proxy?: string | undefined;
  readonly timeoutMs: number;
}

/** A root that leads to itself ends it; no chain of ours has more. */
const maxChain = 8;

const unreachable = (address: string, cause: unknown): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "CONTROLLER_UNREACHABLE",
    message: `no controller answers by TLS at ${address}: ${cause instanceof Error ? cause.message : cause}; is it the address for agents (HOLDFAST_AGENT_LISTEN), and has it HOLDFAST_TLS_DIR?`,
    metadata: { address },
    cause,
  });

const pinMismatch = (address: string, pin: string, shown: readonly string[]): HoldfastError =>
  new HoldfastError({
    kind: "permission",
    reason: "PIN_MISMATCH",
    message: `what answers at ${address} leads to no root with the pin ${pin}, but shows ${shown.join(", ") || "no certificate"}: the token was not sent. Compare the pin with the one that \`holdfast node token\` printed; if it is right, another server answers here`,
    metadata: { address },
  });

const chainOf = (leaf: DetailedPeerCertificate): readonly X509Certificate[] => {
  const chain: X509Certificate[] = [];
  for (let one = leaf; one?.raw !== undefined && chain.length < maxChain; one = one.issuerCertificate) {
    chain.push(new X509Certificate(one.raw));
    if (one.issuerCertificate === one) break;
  }
  return chain;
};

const throughProxy = (proxy: string, target: string, timeoutMs: number): Promise<Socket> => {
  const { hostname, port, username, password } = new URL(proxy);
  const login = Buffer.from(decodeURIComponent(`${username}:${password}`)).toString("base64");
  return new Promise((done, fail) => {
    request({
      ...{
        method: "CONNECT",
        host: bareHost(hostname),
        port: port === "" ? 80 : port,
        path: target,
        timeout: timeoutMs,
      },
      ...(username === "" ? {} : { headers: { "proxy-authorization": `Basic ${login}` } }),
    })
      .on("connect", ({ statusCode }, socket) =>
        statusCode === 200 ? done(socket) : fail(new Error(`the proxy answers ${statusCode}`)),
      )
      .on("error", fail)
      .on("timeout", () => fail(new Error("the proxy does not answer")))
      .end();
  });
};

const shownChain = (socket: Socket, host: string, timeoutMs: number): Promise<readonly X509Certificate[]> =>
  new Promise((done, fail) => {
    const tls = connectTls({
      socket,
      // PR1: nothing is believed and nothing is sent.
      rejectUnauthorized: false,
      minVersion: "TLSv1.3",
      ALPNProtocols: ["h2"],
      ...(isIP(host) === 0 ? { servername: host } : {}),
    });
    tls.setTimeout(timeoutMs, () => tls.destroy(new Error("it does not answer")));
    tls.once("secureConnect", () => {
      const chain = chainOf(tls.getPeerCertificate(true));
      tls.destroy();
      done(chain);
    });
    tls.once("error", fail);
    tls.once("close", () => fail(new Error("it ended the connection")));
  });

/** PEM of the root. */
export const findPinnedRoot = async ({ address, pin, proxy, timeoutMs }: PinnedRootWish): Promise<string> => {
  const at = parseAddress(address);
  if (at.kind === "unix") throw unreachable(address, "a unix socket has no TLS");
  const host = bareHost(at.host);
  let chain: readonly X509Certificate[];
  try {
    const socket =
      proxy === undefined
        ? connectTcp({ host, port: at.port })
        : await throughProxy(proxy, formatAddress(at), timeoutMs);
    chain = await shownChain(socket, host, timeoutMs);
  } catch (error) {
    throw unreachable(address, error);
  }
  const root = chain.find((one) => one.ca && pinOf(one) === pin); // PR2
  if (root === undefined) throw pinMismatch(address, pin, chain.map(pinOf));
  return root.toString();
};
