import { type SecretFamily, type SecretRefs, secretFamilies, type VolumeRef } from "../../domain/volume/volume.ts";
import type { Caller } from "../model.ts";
import type { SecretReferences } from "../secret/secret-model.ts";

/** Values that come with a request, in place of references. */
interface WithInline extends VolumeRef {
  readonly secretRefs: SecretRefs;
  readonly inlineSecrets?: Readonly<Record<string, string>>;
}

const nameOf = ({ namespace, id }: VolumeRef) => ({ namespace, name: `volume.${id}` });

const filled = (refs: SecretRefs, ref: string): SecretRefs =>
  Object.fromEntries(secretFamilies.map((family: SecretFamily) => [family, refs[family] ?? ref]));

const hasInline = ({ inlineSecrets, secretRefs }: WithInline): boolean =>
  Object.keys(inlineSecrets ?? {}).length > 0 && secretFamilies.some((family) => secretRefs[family] === undefined);

/**
 * The request with the references that its values stand for, as far as they are stored already: a repeat is compared by them and writes
 * nothing. undefined: these values are stored nowhere, so this request was never granted.
 */
export const withKnownInline = async <T extends WithInline>(
  secrets: Pick<SecretReferences, "findInline">,
  input: T,
): Promise<T | undefined> => {
  if (!hasInline(input)) return input;
  const ref = await secrets.findInline(nameOf(input), input.inlineSecrets ?? {});
  return ref === undefined ? undefined : { ...input, secretRefs: filled(input.secretRefs, ref) };
};

/** The same, after the values were stored; just before the record that refers to them is. */
export const withStoredInline = async <T extends WithInline>(
  secrets: Pick<SecretReferences, "putInline">,
  input: T,
  caller: Caller,
): Promise<T> => {
  if (!hasInline(input)) return input;
  const ref = await secrets.putInline(nameOf(input), input.inlineSecrets ?? {}, caller);
  return { ...input, secretRefs: filled(input.secretRefs, ref) };
};
