package shell

import (
	"crypto/md5"  //nolint:gosec // a fingerprint that some platforms still publish
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// hostKey accepts the host key with the given fingerprint, whose length
// determines the hash function.
func hostKey(fingerprint string) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if fingerprint == "" {
			return errors.New("the platform does not publish the fingerprint of its ssh host key, so the server cannot be " +
				"verified")
		}
		b := key.Marshal()
		var got string
		switch len(fingerprint) {
		case 43:
			sum := sha256.Sum256(b)
			got = base64.RawStdEncoding.EncodeToString(sum[:])
		case 64:
			sum := sha256.Sum256(b)
			got = hex.EncodeToString(sum[:])
		case 59:
			sum := sha1.Sum(b) //nolint:gosec // as above
			got = colons(sum[:])
		case 47:
			sum := md5.Sum(b) //nolint:gosec // as above
			got = colons(sum[:])
		default:
			return fmt.Errorf("the platform's ssh host key fingerprint %q has an unknown format", fingerprint)
		}
		if subtle.ConstantTimeCompare([]byte(got), []byte(fingerprint)) != 1 {
			return fmt.Errorf("the ssh host key is not the platform's (its fingerprint is %s, not %s): the connection may be "+
				"intercepted", got, fingerprint)
		}
		return nil
	}
}

func colons(b []byte) string {
	parts := make([]string, len(b))
	for i, one := range b {
		parts[i] = hex.EncodeToString([]byte{one})
	}
	return strings.Join(parts, ":")
}
