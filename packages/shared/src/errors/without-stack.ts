/**
 * Runs `make`, whose errors have no stack. To find out where an error was made costs more than all else that a refusal needs; some errors are
 * made for their words alone, or in case that a call fails. What `make` goes on with later has its stacks.
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
