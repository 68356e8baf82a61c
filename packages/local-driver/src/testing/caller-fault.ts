/** The caller broke a rule of ports.ts. Not a DriverError on purpose: no operation may take it for an answer of the host. */
export class CallerFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = "CallerFault";
  }
}
