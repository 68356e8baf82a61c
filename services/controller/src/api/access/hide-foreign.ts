/** What an error may tell to a caller that sees some namespaces only. */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type CallerScope, seesNamespace } from "../../domain/access/caller-scope.ts";

/** An error that is about a record of a namespace which the caller does not see says the same as if there were no such storage. */
export const hidingForeign = async <T>(
  scope: CallerScope,
  storage: { readonly plugin: string; readonly externalId: string },
  act: () => Promise<T>,
): Promise<T> => {
  try {
    return await act();
  } catch (error) {
    const namespace = isHoldfastError(error) ? error.metadata["namespace"] : undefined;
    if (namespace === undefined || seesNamespace(scope, namespace)) throw error;
    throw storageNotFound(storage);
  }
};

const storageNotFound = ({
  plugin,
  externalId,
}: {
  readonly plugin: string;
  readonly externalId: string;
}): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "VOLUME_NOT_FOUND",
    message: `there is no storage ${externalId} of plugin ${plugin} that may be registered here; correct the id, or ask an operator`,
    metadata: { plugin, external_id: externalId },
  });
