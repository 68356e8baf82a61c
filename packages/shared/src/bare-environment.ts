/** The environment of every program that a service starts: nothing of its own reaches a child, no setting and no secret. */
export const bareEnvironment: Readonly<Record<string, string>> = {
  PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
};
