/** The forms in which a secret turns up in what programs print. */

export interface SecretForm {
  readonly text: string;
  /** Too short to be struck out inside of other words. */
  readonly wholeWord: boolean;
}

/** Below this a value is a word like "rw"; it is struck out only where it stands alone. */
const minInsideWords = 4;
/** A line of a longer secret, such as a PEM key, is a secret by itself from here on. */
const minLine = 12;
/** Shorter pieces of an encoding would be found in any text. */
const minEncoded = 6;

export function secretForms(secrets: Iterable<string>): Set<SecretForm> {
  const forms = new Map<string, SecretForm>();
  const add = (text: string, min: number) => {
    if (text.length >= min) forms.set(text, { text, wholeWord: text.length < minInsideWords });
  };
  for (const secret of secrets) {
    if (secret === "") continue;
    add(secret, 1);
    const lines = secret.split(/\r?\n/);
    if (lines.length > 1) for (const line of lines) add(line.trim(), minLine);
    for (const form of encodedForms(secret)) add(form, minEncoded);
  }
  return new Set(forms.values());
}

function encodedForms(secret: string): string[] {
  const wellFormed = secret.toWellFormed();
  const bytes = Buffer.from(wellFormed, "utf8");
  const hex = bytes.toString("hex");
  const url = encodeURIComponent(wellFormed);
  const json = JSON.stringify(wellFormed).slice(1, -1);
  return [
    ...base64Forms(bytes),
    hex,
    hex.toUpperCase(),
    url,
    url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    url.replaceAll("%20", "+"),
    // Parentheses and the like, which other encoders escape and encodeURIComponent leaves.
    url.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`),
    json,
    // JSON within JSON, and what Go's encoder adds.
    JSON.stringify(json).slice(1, -1),
    json.replace(/[<>&]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`),
  ];
}

/**
 * Base64 of the secret at each of the three offsets it can have within something longer, such as `user:password`; only those
 * characters that do not depend on the neighbours.
 */
function base64Forms(bytes: Buffer): string[] {
  const forms: string[] = [];
  for (const offset of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(offset), bytes]);
    const first = Math.ceil((offset * 8) / 6);
    const last = Math.floor((padded.length * 8) / 6);
    for (const encoding of ["base64", "base64url"] as const) {
      const encoded = padded.toString(encoding);
      forms.push(encoded.slice(first, last));
      if (offset === 0) forms.push(encoded);
    }
  }
  return forms;
}
