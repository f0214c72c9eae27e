// A push service and its one browser, with Node's own cryptography. It prints the subscription, then what the browser
// got of each message, one JSON object in a line, and ends with its input.
import crypto from "node:crypto";
import http from "node:http";

const ecdh = crypto.createECDH("prime256v1");
const p256dh = ecdh.generateKeys();
const auth = crypto.randomBytes(16);
const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const hkdf = (key, salt, info, n) => Buffer.from(crypto.hkdfSync("sha256", key, salt, info, n));

const decrypt = (body) => {
  const salt = body.subarray(0, 16), sender = body.subarray(21, 21 + body[20]), sealed = body.subarray(21 + body[20]);
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), p256dh, sender]);
  const input = hkdf(ecdh.computeSecret(sender), auth, info, 32);
  const opener = crypto.createDecipheriv("aes-128-gcm", hkdf(input, salt, "Content-Encoding: aes128gcm\0", 16),
    hkdf(input, salt, "Content-Encoding: nonce\0", 12));
  opener.setAuthTag(sealed.subarray(-16));
  const plain = Buffer.concat([opener.update(sealed.subarray(0, -16)), opener.final()]);
  return JSON.parse(plain.subarray(0, plain.lastIndexOf(2)));
};

const claims = (header) => {
  const [, token, key] = /^vapid t=([^,]+), k=([\w-]+)$/.exec(header);
  const [head, body, signature] = token.split(".");
  const point = Buffer.from(key, "base64url");
  const jwk = {kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url")};
  const valid = crypto.verify("sha256", Buffer.from(head + "." + body),
    {key: crypto.createPublicKey({key: jwk, format: "jwk"}), dsaEncoding: "ieee-p1363"}, Buffer.from(signature, "base64url"));
  return {valid, key, ...JSON.parse(Buffer.from(body, "base64url"))};
};

const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    try {
      print({payload: decrypt(Buffer.concat(chunks)), claims: claims(request.headers.authorization), ttl: request.headers.ttl});
      response.statusCode = 201;
    } catch (error) {
      print({error: String(error)});
      response.statusCode = 400;
    }
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => print({port: server.address().port, p256dh: p256dh.toString("base64url"), auth: auth.toString("base64url")}));
process.stdin.resume().on("end", () => process.exit());
