package mtasts

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is what senders do with a mail server that does not fulfill the policy.
type Mode string

const (
	Enforce Mode = "enforce" // they do not deliver
	Testing Mode = "testing" // they deliver, and report it
	None    Mode = "none"    // the policy is being withdrawn
)

// maxAge is the longest time that a policy may be remembered.
const maxAge = 31557600 * time.Second

// Policy is what a domain promises.
type Policy struct {
	Mode Mode
	// MX are names of mail servers, or "*." and the part behind the first label.
	MX []string
	// MaxAge is how long senders remember the policy.
	MaxAge time.Duration
}

// Matches reports whether a mail server's name is one of the policy. A wildcard stands for one label.
func (p Policy) Matches(host string) bool {
	host = plain(host)
	_, parent, _ := strings.Cut(host, ".")
	return slices.ContainsFunc(p.MX, func(pattern string) bool {
		if suffix, ok := strings.CutPrefix(pattern, "*."); ok {
			return parent == suffix
		}
		return host == pattern
	})
}

func plain(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// ErrNoRecord means that a domain has no policy.
var ErrNoRecord = errors.New("no record")

// ParseRecord returns the id in the TXT records of _mta-sts.DOMAIN. Senders ignore records of
// other versions, and all records if there are several of this one.
func ParseRecord(texts []string) (id string, err error) {
	var records []string
	for _, text := range texts {
		if first, _, _ := strings.Cut(text, ";"); strings.TrimSpace(first) == "v=STSv1" {
			records = append(records, text)
		}
	}
	switch len(records) {
	case 0:
		return "", ErrNoRecord
	case 1:
	default:
		return "", fmt.Errorf("there are %d records with v=STSv1, and senders ignore all of them: keep one", len(records))
	}
	for _, field := range strings.Split(records[0], ";") {
		if name, value, ok := strings.Cut(field, "="); ok && strings.TrimSpace(name) == "id" {
			id = strings.TrimSpace(value)
			break
		}
	}
	if len(id) < 1 || len(id) > 32 || strings.ContainsFunc(id, notAlphanumeric) {
		return "", fmt.Errorf("the record %q has no id of 1 to 32 characters 0-9, a-z and A-Z", records[0])
	}
	return id, nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// ParsePolicy parses the content of mta-sts.txt. Unknown fields are ignored, as are repetitions
// of fields other than mx.
func ParsePolicy(content string) (Policy, error) {
	var p Policy
	seen := map[string]string{}
	for _, line := range strings.Split(content, "\n") {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok {
			if name != "" {
				return Policy{}, fmt.Errorf("the line %.40q is not \"name: value\"", name)
			}
			continue
		}
		if name == "mx" {
			if err := checkPattern(value); err != nil {
				return Policy{}, err
			}
			p.MX = append(p.MX, plain(value))
			continue
		}
		if _, again := seen[name]; !again {
			seen[name] = value
		}
	}
	if seen["version"] != "STSv1" {
		return Policy{}, errors.New("it has no line \"version: STSv1\"")
	}
	p.Mode = Mode(seen["mode"])
	if !slices.Contains([]Mode{Enforce, Testing, None}, p.Mode) {
		return Policy{}, fmt.Errorf("its mode is %.20q, want enforce, testing or none", p.Mode)
	}
	seconds, err := strconv.ParseUint(seen["max_age"], 10, 32)
	if p.MaxAge = time.Duration(seconds) * time.Second; err != nil || p.MaxAge > maxAge {
		return Policy{}, fmt.Errorf("its max_age is %.20q, want seconds up to 31557600", seen["max_age"])
	}
	if len(p.MX) == 0 && p.Mode != None {
		return Policy{}, errors.New("it has no line \"mx: NAME\"")
	}
	return p, nil
}

// checkPattern refuses what no name of a mail server matches.
func checkPattern(s string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(s, "*."), ".")
	bad := name == "" || len(name) > 253 || strings.HasPrefix(name, ".") || strings.Contains(name, "..") ||
		strings.ContainsFunc(name, func(r rune) bool { return notAlphanumeric(r) && !strings.ContainsRune(".-_", r) })
	if bad {
		return fmt.Errorf("its mx %.60q is not the name of a mail server, such as mx.example.com or *.example.com", s)
	}
	return nil
}
