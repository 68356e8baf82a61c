/** Of an error that is made for its words alone. To find out where it was made costs more than all else that a refusal needs. */
export const withoutStack = <Made extends Error>(make: () => Made): Made => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
};
