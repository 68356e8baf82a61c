import { DriverError } from "../domain/driver-error.ts";

/** Every refusal of the operation says which one it was, of what, and on which node. */
export function inTheNameOf<A extends readonly unknown[], R>(
  operation: string,
  subject: (first: A[0]) => string,
  nodeId: string,
  act: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args) => {
    try {
      return await act(...args);
    } catch (error) {
      if (!(error instanceof DriverError)) throw error;
      const message = `${operation} of ${subject(args[0])} on node ${nodeId}: ${error.message}`;
      throw new DriverError(error.code, message, { cause: error });
    }
  };
}
