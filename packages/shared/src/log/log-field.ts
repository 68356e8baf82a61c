/** How one value looks in a log line: never a secret, never endless, an error flattened to what can be searched for. */
import { cutToBytes } from "../errors/grpc-status.ts";
import { isHoldfastError } from "../errors/holdfast-error.ts";

export const struckOut = "[redacted]";

const maxText = 2048;
const maxDepth = 4;
const maxEntries = 50;

/**
 * Whole words at the end of a field name, in whatever case: `secrets`, `apiToken`, `PUBLISH_CONTEXT`, but not `secretVersion`. The
 * last five are those of which CSI says that they may be sensitive; gRPC messages are judged by the same list.
 */
const secretName =
  /(^|[_.-])(secrets?|passwords?|passwd|passphrase|tokens?|tickets?|credentials?|authorization|cookie|private_key|api_key|kek|dek|volume_context|publish_context|parameters|mutable_parameters|mount_flags)$/;

export function isSecretName(name: string): boolean {
  return secretName.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase());
}

export function logField(name: string, value: unknown, depth = 0): unknown {
  if (isSecretName(name)) return struckOut;
  switch (typeof value) {
    case "string":
      return cutToBytes(value, maxText);
    case "bigint":
      return value.toString();
    case "function":
    case "symbol":
      return undefined;
    case "object":
      return value === null ? null : objectField(value, depth);
    default:
      return value;
  }
}

function objectField(value: object, depth: number): unknown {
  if (value instanceof Error) return errorFields(value, depth);
  if (value instanceof Date) return value.toISOString();
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  if (depth >= maxDepth) return "…";
  if (Array.isArray(value)) return value.slice(0, maxEntries).map((item) => logField("", item, depth + 1));
  const entries = value instanceof Map ? [...value.entries()] : Object.entries(value);
  const shown: Record<string, unknown> = {};
  for (const [key, item] of entries.slice(0, maxEntries)) shown[String(key)] = logField(String(key), item, depth + 1);
  return shown;
}

function errorFields(error: Error, depth: number): Record<string, unknown> {
  const message = cutToBytes(error.message, maxText);
  const cause = error.cause === undefined || depth >= maxDepth ? undefined : logField("cause", error.cause, depth + 1);
  const rest = cause === undefined ? {} : { cause };
  if (isHoldfastError(error)) {
    const metadata =
      Object.keys(error.metadata).length === 0 ? {} : { metadata: logField("metadata", error.metadata, depth + 1) };
    return { kind: error.kind, reason: error.reason, message, ...metadata, ...rest };
  }
  // Only what nobody threw on purpose needs the place where it was thrown.
  return { name: error.name, message, stack: cutToBytes(error.stack ?? "", maxText), ...rest };
}
