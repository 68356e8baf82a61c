import { HoldfastError } from "../errors/holdfast-error.ts";

/** What it was rejected with; anything but a HoldfastError fails the test. */
export async function failureOf(promise: Promise<unknown>): Promise<HoldfastError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HoldfastError)) throw new Error(`expected a HoldfastError, got ${String(error)}`);
  return error;
}
