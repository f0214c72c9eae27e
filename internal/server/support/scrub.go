package support

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"ingot/internal/base/pattern"
)

// Scrubber removes secrets from texts: the given ones wherever they are, and what looks like
// a secret. It rather removes too much.
type Scrubber struct{ known *strings.Replacer }

// Replacements.
const (
	redacted = "[redacted]"
	mailed   = "[mail]"
)

// shortest is the length from which a known secret is searched for: a shorter one would also
// be part of other words.
const shortest = 4

// NewScrubber returns a scrubber that knows these secrets. A secret with several lines, such
// as a file of keys, is searched for line by line.
func NewScrubber(secrets ...string) *Scrubber {
	var words []string
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			for _, one := range append(strings.Split(line, ","), line) { // keys are lists
				if one = strings.TrimSpace(one); len(one) >= shortest {
					words = append(words, spellings(one)...)
				}
			}
		}
	}
	// The longest first: a short secret may be part of a long one.
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, w := range slices.Compact(words) {
		pairs = append(pairs, w, redacted)
	}
	return &Scrubber{strings.NewReplacer(pairs...)}
}

// spellings returns a secret as it is in URLs, in JSON and in base64.
func spellings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")}
	if quoted, err := json.Marshal(secret); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	return all
}

// suspect is what a secret looks like, and what replaces it.
type suspect struct {
	like func() *regexp.Regexp
	by   string
}

var suspects = []suspect{
	// The environment of apps has credentials of services.
	{pattern.OnUse(`VCAP_[A-Z]+.*`), "VCAP_" + redacted},
	{pattern.OnUse(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`), redacted},
	{pattern.OnUse(`(?i)(?:AGE-SECRET-KEY|INGOT-SIGNING-KEY)-[0-9a-z]+`), redacted},
	// user:password@ of a URL, and of the MySQL drivers' addresses
	{pattern.OnUse(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`), "${1}" + redacted + "@"},
	{pattern.OnUse(`[\w.-]+:[^\s"']+@(tcp|unix)\(`), redacted + "@${1}("},
	// tokens and hashes
	{pattern.OnUse(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?`), redacted},
	{pattern.OnUse(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{4,}`), "${1} " + redacted},
	{pattern.OnUse(`\$2[abxy]\$\d\d\$[./A-Za-z0-9]{20,}`), redacted},
	{pattern.OnUse(`\$(?:argon2\w+|scrypt|pbkdf2[\w-]*)\$[^\s"']+`), redacted},
	{pattern.OnUse(`SCRAM-SHA-256\$[^\s"']+`), redacted},
	// keys of S3, and signed URLs
	{pattern.OnUse(`\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b`), redacted},
	{pattern.OnUse(`(?i)(X-Amz-[A-Za-z-]+=)[^&\s"']+`), "${1}" + redacted},
	{pattern.OnUse(`([?&](?:code|state|sig|signature)=)[^&\s"']+`), "${1}" + redacted},
	// NAME=VALUE and "name": "value"
	{pattern.OnUse(`(?i)([\w.-]*(?:passw|secret|token|credential|authorization|cookie|passcode|passphrase|` +
		`(?:api|access|private|signing|encryption|master|backup|host)[_-]?key)[\w.-]*\\*["']?\s*[:=]\s*)` +
		`(?:\\*"(?:\\.|[^"\\])*"?|\\*'[^']*'?|[{\[][^\n]*|[^\s,;&"'}\]]+)`), "${1}" + redacted},
}

var (
	address = pattern.OnUse(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*`)
	// random is long enough to be a token, a code or a key in base64.
	random = pattern.OnUse(`[A-Za-z0-9_+/-]{32,}={0,2}`)
)

// Text returns a text without secrets.
func (s *Scrubber) Text(text []byte) []byte {
	text = []byte(s.known.Replace(string(bytes.ToValidUTF8(text, []byte("?")))))
	for _, one := range suspects {
		text = one.like().ReplaceAll(text, []byte(one.by))
	}
	text = address().ReplaceAllFunc(text, func(found []byte) []byte {
		if _, host, _ := bytes.Cut(found, []byte("@")); isVersion(host) {
			return found // module@v1.2.3 in a stack
		}
		return []byte(mailed)
	})
	return random().ReplaceAllFunc(text, func(found []byte) []byte {
		if looksRandom(found) {
			return []byte(redacted)
		}
		return found
	})
}

func isVersion(host []byte) bool {
	return len(host) > 1 && host[0] == 'v' && host[1] >= '0' && host[1] <= '9'
}

// looksRandom reports whether a long part of a word between slashes changes between lower case,
// upper case and digits more often than paths and names of functions do.
func looksRandom(word []byte) bool {
	for part := range bytes.SplitSeq(word, []byte("/")) {
		changes := 0
		for i := 1; i < len(part); i++ {
			if class(part[i]) != class(part[i-1]) {
				changes++
			}
		}
		if len(part) >= 20 && changes*3 > len(part) && bytes.ContainsAny(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return true
		}
	}
	return false
}

func class(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return 1
	case c >= 'A' && c <= 'Z':
		return 2
	case c >= '0' && c <= '9':
		return 3
	}
	return 0
}
