package main

import (
	"crypto/md5"  //nolint:gosec // part of htpasswd's own format
	"crypto/sha1" //nolint:gosec // the same
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// readUsers reads an htpasswd file: NAME:HASH lines.
func readUsers(file string) (map[string]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	users := map[string]string{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("Staticfile.auth: line %d is not NAME:HASH, as htpasswd writes it", i+1)
		}
		if !knownHash(hash) {
			return nil,
				fmt.Errorf("Staticfile.auth: the password of line %d is hashed in a way that is not supported: use htpasswd -B",
					i+1)
		}
		users[name] = hash
	}
	if len(users) == 0 {
		return nil, errors.New("Staticfile.auth has no users")
	}
	return users, nil
}

func knownHash(hash string) bool {
	for _, prefix := range []string{"$2a$", "$2b$", "$2y$", "$apr1$", "{SHA}"} {
		if strings.HasPrefix(hash, prefix) {
			return true
		}
	}
	return false
}

func passwordMatches(hash, password string) bool {
	switch {
	case strings.HasPrefix(hash, "$2"):
		return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
	case strings.HasPrefix(hash, "$apr1$"):
		salt, _, _ := strings.Cut(strings.TrimPrefix(hash, "$apr1$"), "$")
		return equal(hash, apr1(password, salt))
	case strings.HasPrefix(hash, "{SHA}"):
		sum := sha1.Sum([]byte(password)) //nolint:gosec // as above
		return equal(hash, "{SHA}"+base64.StdEncoding.EncodeToString(sum[:]))
	}
	return false
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// apr1 is Apache's variant of MD5 crypt, the default of htpasswd.
func apr1(password, salt string) string {
	const magic = "$apr1$"
	if len(salt) > 8 {
		salt = salt[:8]
	}
	p := []byte(password)
	inner := md5.Sum([]byte(password + salt + password)) //nolint:gosec // as above
	text := []byte(password + magic + salt)
	for n := len(p); n > 0; n -= 16 {
		text = append(text, inner[:min(n, 16)]...)
	}
	for n := len(p); n > 0; n >>= 1 {
		if n&1 == 1 {
			text = append(text, 0)
		} else {
			text = append(text, p[0])
		}
	}
	sum := md5.Sum(text) //nolint:gosec // as above
	for i := range 1000 {
		var round []byte
		if i&1 == 1 {
			round = append(round, p...)
		} else {
			round = append(round, sum[:]...)
		}
		if i%3 != 0 {
			round = append(round, salt...)
		}
		if i%7 != 0 {
			round = append(round, p...)
		}
		if i&1 == 1 {
			round = append(round, sum[:]...)
		} else {
			round = append(round, p...)
		}
		sum = md5.Sum(round) //nolint:gosec // as above
	}
	const digits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var out []byte
	put := func(v uint, n int) {
		for range n {
			out = append(out, digits[v&63])
			v >>= 6
		}
	}
	for _, t := range [][3]int{{0, 6, 12}, {1, 7, 13}, {2, 8, 14}, {3, 9, 15}, {4, 10, 5}} {
		put(uint(sum[t[0]])<<16|uint(sum[t[1]])<<8|uint(sum[t[2]]), 4)
	}
	put(uint(sum[11]), 2)
	return magic + salt + "$" + string(out)
}
