package sample

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// Login is the one name and password that an app lets in. They are kept as sums
// of equal length, to be compared in equal time.
type Login struct{ name, password [sha256.Size]byte }

// NewLogin returns that of a name and a password.
func NewLogin(name, password string) *Login {
	return &Login{sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))}
}

// Check answers requests with another name or password, or none, and reports
// whether a request may go on. Wrong ones take as long as the right ones.
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
