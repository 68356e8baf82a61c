/**
 * What may be shown of messages and of texts. Messages are judged by their descriptors (csi_secret, debug_redact), and the fields of
 * which CSI says that they may be sensitive are never shown either: "this field MAY contain sensitive information ... CO MUST NOT
 * leak". What is redacted is a copy: the message itself goes on to its call.
 */
import { cutToBytes } from "../errors/grpc-status.ts";
import { messageTypes } from "../gen/redacted-fields.ts";
import { isSecretName } from "../log/log-field.ts";
import { secretForms } from "./secret-forms.ts";

export const mask = "***";

/** Texts of others are cut to this. */
export const maxScrubbedBytes = 1024;
/** Of a longer text nobody will ever see the rest. */
const maxShown = 64 * 1024;
const maxKeyBytes = 128;

/** A copy that may be logged: maps keep their keys, everything else that is denied becomes a mask, bytes their count. */
export function redactMessage(typeName: string, message: object): Record<string, unknown> {
  const type = Object.hasOwn(messageTypes, typeName) ? messageTypes[typeName] : undefined;
  const shown: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(message)) {
    if (value === undefined) continue;
    // A type that the descriptors do not know may hold anything.
    const denied = type === undefined || type.redacted.includes(field) || isSecretName(field);
    shown[field] = denied ? masked(value) : shownValue(value, own(type.messages, field), own(type.maps, field));
  }
  return shown;
}

function own(types: Readonly<Record<string, string>>, field: string): string | undefined {
  return Object.hasOwn(types, field) ? types[field] : undefined;
}

function shownValue(value: unknown, typeName: string | undefined, mapOf: string | undefined): unknown {
  if (value === null || typeof value !== "object") return typeof value === "bigint" ? value.toString() : value;
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map((item) => shownValue(item, typeName, undefined));
  if (typeName !== undefined) return redactMessage(typeName, value);
  const entries: Iterable<readonly [unknown, unknown]> = value instanceof Map ? value : Object.entries(value);
  const shown: Record<string, unknown> = {};
  for (const [key, item] of entries) {
    const name = cutToBytes(String(key), maxKeyBytes);
    shown[name] = isSecretName(name) ? masked(item) : shownValue(item, mapOf, undefined);
  }
  return shown;
}

/** How much there is, and of maps the keys. */
function masked(value: unknown): unknown {
  if (value === null || value === undefined) return value;
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  if (Array.isArray(value)) return value.map(() => mask);
  if (typeof value !== "object") return mask;
  const keys = value instanceof Map ? [...value.keys()] : Object.keys(value);
  return Object.fromEntries(keys.map((key) => [cutToBytes(String(key), maxKeyBytes), mask]));
}

/**
 * A text with every secret struck out, raw and in the encodings that programs print, then cut. Everything is searched in the text
 * as it came, so that one secret's mask never hides half of another from view.
 */
export function scrub(text: string, secrets: Iterable<string>): string {
  const forms = [...secretForms(secrets)];
  // Searched further than shown: a secret that begins before the end of what is shown has to be recognised whole.
  const longest = forms.reduce((most, form) => Math.max(most, form.text.length), 0);
  const searched = text.length > maxShown ? text.slice(0, maxShown + longest) : text;
  const hidden = new Uint8Array(searched.length);
  for (const { text: form, wholeWord } of forms) {
    for (let at = searched.indexOf(form); at !== -1; at = searched.indexOf(form, at + 1)) {
      if (!wholeWord || standsAlone(searched, at, form.length)) hidden.fill(1, at, at + form.length);
    }
  }
  const shown = Math.min(searched.length, maxShown);
  const parts: string[] = [];
  for (let start = 0, end = 0; start < shown; start = end) {
    while (end < shown && hidden[end] === hidden[start]) end += 1;
    parts.push(hidden[start] === 1 ? mask : searched.slice(start, end));
  }
  if (shown < text.length) parts.push("…");
  return cutToBytes(parts.join(""), maxScrubbedBytes);
}

const letter = /[\p{L}\p{N}_]/u;

function standsAlone(text: string, at: number, length: number): boolean {
  return !letter.test(text[at - 1] ?? "") && !letter.test(text[at + length] ?? "");
}
