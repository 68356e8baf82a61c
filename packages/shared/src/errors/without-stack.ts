/**
 * Of an error that is made for its words alone, or in case that it is needed: to find out where costs more than all else that a refusal
 * needs. What `make` begins and goes on with later has its stacks.
 */
export const withoutStack = <Made>(make: () => Made): Made => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
};
