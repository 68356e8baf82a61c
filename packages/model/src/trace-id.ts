/** Of a W3C traceparent; undefined of one that is none. */
export const traceIdOf = (traceparent: string | undefined): string | undefined =>
  /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? "")?.[1];
