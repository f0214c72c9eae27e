package sample

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// Login is a name and a password, kept as hashes of equal length for comparison
// in constant time.
type Login struct{ name, password [sha256.Size]byte }

// NewLogin returns a Login with a name and a password.
func NewLogin(name, password string) *Login {
	return &Login{sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))}
}

// Check responds with 401 to requests with a wrong or no name and password, and
// reports whether the request is authorized. It takes constant time.
func (l *Login) Check(w http.ResponseWriter, r *http.Request) bool {
	name, password, _ := r.BasicAuth()
	n, p := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(n[:], l.name[:])&subtle.ConstantTimeCompare(p[:], l.password[:]) == 1 {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="sample", charset="UTF-8"`)
	http.Error(w, "A name and a password are needed here.", http.StatusUnauthorized)
	return false
}
