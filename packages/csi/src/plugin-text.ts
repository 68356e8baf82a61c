/**
 * What a plugin says, made fit for logs, spans and people: its own request's sensitive values struck out, control
 * characters gone, cut. Plugins echo what they were sent, add stack traces, and answer in pages of JSON.
 */
import { cutToBytes } from "@holdfast/shared/errors/grpc-status";
import { scrub } from "@holdfast/shared/grpc/redact";

const maxBytes = 1024;
// biome-ignore lint/suspicious/noControlCharactersInRegex: taking them out is the point
const controlRuns = /[\u0000-\u001f\u007f-\u009f]+/g;

export function cleanPluginText(text: string, sensitive: readonly string[]): string {
  const plain = scrub(text, sensitive).replace(controlRuns, " ").trim();
  return plain === "" ? "(the plugin said nothing)" : cutToBytes(plain, maxBytes);
}

interface Sensitive {
  readonly secrets?: Readonly<Record<string, string>>;
  readonly publishContext?: Readonly<Record<string, string>>;
  readonly volumeContext?: Readonly<Record<string, string>>;
  readonly volumeCapability?: Capability | undefined;
  readonly volumeCapabilities?: readonly Capability[];
}

interface Capability {
  readonly mount?: { readonly mountFlags: readonly string[] } | undefined;
}

/** Shorter values than this are words like "true" or "rw": striking them out would leave no message. */
const minContextLength = 8;

/**
 * The values of a request that must not come back out: every secret, and from what CSI calls possibly sensitive (contexts,
 * mount flags) whatever is long enough to be a token, a flag's value apart from its name.
 */
export function sensitiveValues(request: object): string[] {
  const { secrets = {}, publishContext = {}, volumeContext = {}, ...rest }: Sensitive = request;
  const capabilities = [rest.volumeCapability, ...(rest.volumeCapabilities ?? [])];
  const flags = capabilities.flatMap((capability) => capability?.mount?.mountFlags ?? []);
  const flagValues = flags.filter((flag) => flag.includes("=")).map((flag) => flag.slice(flag.indexOf("=") + 1));
  const possible = [...Object.values(publishContext), ...Object.values(volumeContext), ...flagValues];
  return [...Object.values(secrets), ...possible.filter((value) => value.length >= minContextLength)];
}
