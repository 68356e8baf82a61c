/**
 * Bounds of what is read. The parser of YAML compares each key of a map with all others, and hears no Ctrl-C meanwhile: what is far above
 * any request is refused before it is parsed.
 */
import { CliFailure } from "./cli-failure.ts";
import { exitCodes } from "./exit-code.ts";

const maxYamlBytes = 1024 * 1024;
/** A map in a request has 4 KiB; a `:` or a `?` in a value counts as a key, since nothing is parsed here. */
const maxYamlKeys = 10_000;
/** Of any file, lists of claims included. */
const maxFileBytes = 16 * 1024 * 1024;

/** The text as it came, unless it is too much to be parsed. */
export const boundedYaml = (text: string, file: string): string => {
  const refuse = (what: string): never => {
    throw new CliFailure({
      exitCode: exitCodes.usage,
      reason: "BAD_SPEC",
      message: `${file} ${what}; nothing was sent`,
      next: ["look whether it is the right file"],
    });
  };
  if (Buffer.byteLength(text) > maxYamlBytes) refuse(`is larger than ${maxYamlBytes} bytes`);
  let keys = 0;
  for (const _ of text.matchAll(/[:?]/g)) keys += 1;
  return keys > maxYamlKeys ? refuse(`has more than ${maxYamlKeys} keys`) : text;
};

/** All of it; rejects once it is clear that there is too much, so that a source without an end ends. */
export const readUpTo = async (source: AsyncIterable<Uint8Array>, most = maxFileBytes): Promise<Uint8Array> => {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of source) {
    bytes += part.length;
    if (bytes > most) throw new Error(`it is larger than ${most} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
};
