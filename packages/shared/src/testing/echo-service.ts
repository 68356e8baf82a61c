/** A service for tests of what surrounds services. Its messages are JSON, so that it needs no generated code. */

export interface EchoMessage {
  readonly text: string;
}

const message = {
  encode: (value: EchoMessage) => ({ finish: () => Buffer.from(JSON.stringify(value)) }),
  decode: (bytes: Uint8Array): EchoMessage => JSON.parse(Buffer.from(bytes).toString() || '{"text":""}'),
};

const method = <Name extends string, ResponseStream extends boolean>(name: Name, responseStream: ResponseStream) => ({
  name,
  requestType: message,
  requestStream: false as const,
  responseType: message,
  responseStream,
  options: {},
});

export const EchoDefinition = {
  name: "Echo",
  fullName: "holdfast.test.v1.Echo",
  methods: { say: method("Say", false), watch: method("Watch", true) },
} as const;
