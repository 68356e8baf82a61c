/** The two kinds of address that a server listens on and a client dials. */
import { invalidArgument } from "../errors/holdfast-error.ts";

export type Address =
  | { readonly kind: "unix"; readonly path: string }
  | { readonly kind: "tcp"; readonly host: string; readonly port: number };

/** sockaddr_un holds 108 bytes with its end mark. */
export const maxSocketPathBytes = 107;

/** `unix:///absolute/path`, `host:port` or `[ipv6]:port`. */
export function parseAddress(text: string): Address {
  const unix = /^unix:(?:\/\/)?(\/[^/\0][^\0]*)$/.exec(text)?.[1];
  if (unix !== undefined) {
    if (Buffer.byteLength(unix) > maxSocketPathBytes) {
      throw bad(
        text,
        `a socket path holds at most ${maxSocketPathBytes} bytes, this one has ${Buffer.byteLength(unix)}`,
      );
    }
    return { kind: "unix", path: unix };
  }
  const [, host, digits] = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (host === undefined || port > 65_535) throw bad(text, "has to be unix:///absolute/path or host:port");
  return { kind: "tcp", host, port };
}

export function formatAddress(address: Address): string {
  // Three slashes: with one, nice-grpc appends a port to the path.
  return address.kind === "unix" ? `unix://${address.path}` : `${address.host}:${address.port}`;
}

/** As sockets take it: an IPv6 address without its brackets. */
export const bareHost = (host: string): string => host.replace(/^\[|\]$/g, "");

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

/** Others than programs of this host can reach it, or stand in for it. */
export const isBeyondHost = (address: Address): boolean => address.kind === "tcp" && !isLoopback(address.host);

function bad(text: string, why: string) {
  return invalidArgument([{ field: "address", description: why }], `address ${JSON.stringify(text)} ${why}`);
}
