import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type SecretName, secretKey } from "../../domain/secret/secret.ts";
import type { AggregateRef } from "../../domain/store-types.ts";

export const secretNotFound = (ref: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "SECRET_NOT_FOUND",
    message: `secret ${ref} is not there; put it, or correct the reference`,
    metadata: { ref },
  });

/** `user` is who refers to it; it may have let go since. */
export const secretInUse = (
  name: SecretName,
  version: number | undefined,
  user: AggregateRef | undefined,
): HoldfastError => {
  const what = version === undefined ? `secret ${secretKey(name)}` : `version ${version} of secret ${secretKey(name)}`;
  const who = user === undefined ? "a record" : `${user.kind} ${user.key}`;
  return new HoldfastError({
    kind: "precondition",
    reason: "SECRET_IN_USE",
    message: `${what} is referred to by ${who}; point it at another secret, or put a newer version first`,
    metadata: { secret: name.name, namespace: name.namespace, volume: user?.kind === "volume" ? user.key : "" },
  });
};

export const secretReplaced = (name: SecretName, requestId: string): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "SECRET_EXISTS",
    message: `request ${requestId} put other values into secret ${secretKey(name)}; repeat it with the same values, or take another request_id`,
    metadata: { secret: name.name, namespace: name.namespace },
  });

export const secretFull = (name: SecretName, most: number): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "TOO_MANY_VERSIONS",
    message: `secret ${secretKey(name)} has ${most} versions; delete those that nothing needs first`,
    metadata: { secret: name.name, namespace: name.namespace },
  });
