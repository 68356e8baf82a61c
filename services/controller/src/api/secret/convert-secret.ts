/** References to secrets and what may be shown of stored ones: messages of holdfast.v1 ↔ the commands' words. */
import type { SecretReference } from "@holdfast/shared/gen/holdfast/v1/common";
import type { Secret } from "@holdfast/shared/gen/holdfast/v1/secret";
import type { VolumeSecrets } from "@holdfast/shared/gen/holdfast/v1/volume";
import { withNamespace, withoutNamespace } from "../../domain/secret/secret.ts";
import { type SecretFamily, type SecretRefs, secretFamilies } from "../../domain/volume/volume.ts";
import type { StoredSecret } from "../../secrets/secret-records.ts";
import { dateOf } from "../convert-message.ts";

export const secretRefMessage = (ref: string | undefined): SecretReference | undefined =>
  ref === undefined ? undefined : { ref: withoutNamespace(ref) };

/** As records hold it; undefined for none given. */
export const secretRefFrom = (namespace: string, reference: SecretReference | undefined): string | undefined =>
  reference === undefined || reference.ref === "" ? undefined : withNamespace(namespace, reference.ref);

export const secretsMessage = (refs: SecretRefs): VolumeSecrets => {
  const of = (family: SecretFamily) => secretRefMessage(refs[family]);
  return {
    create: of("create"),
    delete: of("delete"),
    controllerPublish: of("controllerPublish"),
    nodeStage: of("nodeStage"),
    nodePublish: of("nodePublish"),
    controllerExpand: of("controllerExpand"),
    nodeExpand: of("nodeExpand"),
    modify: of("modify"),
    snapshot: of("snapshot"),
    list: of("list"),
  };
};

export const secretsFrom = (namespace: string, secrets: VolumeSecrets | undefined): SecretRefs =>
  Object.fromEntries(
    secretFamilies.flatMap((family) => {
      const ref = secretRefFrom(namespace, secrets?.[family]);
      return ref === undefined ? [] : [[family, ref]];
    }),
  );

/** No values: the API has no field for them. */
export const secretMessage = ({ record, rev }: StoredSecret): Secret => ({
  namespace: record.namespace,
  name: record.name,
  versions: record.versions.map(({ version, createdAt, keys }) => ({
    version: BigInt(version),
    createdAt: dateOf(createdAt),
    keys: [...keys],
  })),
  revision: BigInt(rev),
});
