/** Certificates of a test's own, made with openssl. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

export interface Authority extends CertificateFiles {
  /** `names` as in a subjectAltName, such as IP:127.0.0.1 or DNS:redis.internal. */
  issue(name: string, names: readonly string[]): Promise<CertificateFiles>;
}

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

export const createAuthority = async (dir: string, name: string): Promise<Authority> => {
  const at = (file: string): string => path.join(dir, `${name}-${file}`);
  const own = { cert: at("ca.pem"), key: at("ca.key") };
  await run("openssl", [
    "req",
    "-x509",
    ...newKey,
    "-days",
    "2",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    own.key,
    "-out",
    own.cert,
  ]);
  return {
    ...own,
    async issue(leaf, names) {
      const files = { cert: at(`${leaf}.pem`), key: at(`${leaf}.key`) };
      const [request, extensions] = [at(`${leaf}.csr`), at(`${leaf}.ext`)];
      await run("openssl", ["req", "-new", ...newKey, "-subj", `/CN=${leaf}`, "-keyout", files.key, "-out", request]);
      await writeFile(extensions, `subjectAltName=${names.join(",")}\n`);
      const signing = ["-CA", own.cert, "-CAkey", own.key, "-CAcreateserial", "-days", "2", "-extfile", extensions];
      await run("openssl", ["x509", "-req", "-in", request, ...signing, "-out", files.cert]);
      return files;
    },
  };
};
