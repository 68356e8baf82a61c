import { checkId, checkSecretName, checkSecretValues, checkString, type Violation } from "../../domain/limits.ts";
import type { SecretName } from "../../domain/secret/secret.ts";
import { refuse } from "../volume/validate-volume.ts";
import type { DeleteSecretInput, PutSecretInput } from "./secret-model.ts";

const checkName = ({ namespace, name }: SecretName): readonly Violation[] => [
  ...checkId("namespace", namespace),
  ...checkSecretName("name", name),
];

export const validatePutSecret = (input: PutSecretInput): void =>
  refuse([
    ...checkName(input),
    ...checkSecretValues("values", input.values),
    ...checkString("request_id", input.requestId),
  ]);

export const validateDeleteSecret = (input: DeleteSecretInput): void =>
  refuse([
    ...checkName(input),
    ...(Number.isSafeInteger(input.version) && input.version >= 0
      ? []
      : [{ field: "version", description: "is no number of a version" }]),
  ]);
