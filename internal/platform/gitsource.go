package platform

import (
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"ingot/internal/base/fault"
)

// GitSource is the git repository that an app is deployed from.
type GitSource struct {
	Resource
	AppGUID   string
	SpaceGUID string
	URL       string // https, or http; without credentials
	Branch    string // a branch or a tag; empty means the default branch
	Folder    string // of the app in the repository; empty means the root
	Username  string
	Password  string
	// Secret signs webhooks; empty means that none are accepted.
	Secret string
	// OwnerGUID and OwnerName are the user who set the source: deployments of webhooks have their role.
	OwnerGUID, OwnerName string
	// Deliveries are the ids of the newest webhooks.
	Deliveries []string
	// Commit was deployed last, or is being deployed; Subject is the first line of its message.
	Commit, Subject string
	Deployed        time.Time // when its build began
	// Error is why the last deployment of a webhook began no build; empty if it did.
	Error string
}

const (
	maxGitURL  = 2048
	maxGitRef  = 255
	maxGitText = 1024
)

// Check normalizes a source and returns its problems. They never contain the URL, which may have credentials by
// mistake.
func (s *GitSource) Check() error {
	var problems []string
	if problem := s.checkURL(); problem != "" {
		problems = append(problems, problem)
	}
	if s.Branch = strings.TrimPrefix(s.Branch, "refs/heads/"); len(s.Branch) > maxGitRef || !validGitRef(s.Branch) {
		problems = append(problems, "The branch is not the name of a branch or tag of git")
	}
	if folder := strings.Trim(strings.TrimPrefix(s.Folder, "./"), "/"); folder != "" {
		s.Folder = path.Clean(folder)
	} else {
		s.Folder = ""
	}
	if s.Folder == "." {
		s.Folder = ""
	}
	if s.Folder == ".." || strings.HasPrefix(s.Folder, "../") || len(s.Folder) > maxGitText ||
		strings.ContainsFunc(s.Folder, unicode.IsControl) || strings.Contains(s.Folder, `\`) {
		problems = append(problems, "The folder must be a folder of the repository, such as apps/shop")
	}
	if len(s.Username) > maxGitText || len(s.Password) > maxGitText ||
		strings.ContainsFunc(s.Username+s.Password, unicode.IsControl) || strings.Contains(s.Username, ":") {
		problems = append(problems, "User name and password must have at most 1024 characters, without line breaks, and "+
			"the user name no colon")
	}
	return fault.Invalid(problems...)
}

func (s *GitSource) checkURL() string {
	s.URL = strings.TrimSpace(s.URL)
	u, err := url.Parse(s.URL)
	switch {
	case s.URL == "":
		return "The address of the git repository is missing"
	case len(s.URL) > maxGitURL:
		return "The address of the git repository is too long"
	case strings.HasPrefix(s.URL, "ssh://") || err != nil && strings.Contains(s.URL, "@") ||
		err == nil && u.Scheme == "" && strings.Contains(s.URL, "@"):
		return "Git repositories are fetched over https, not ssh: use the address that begins with https://, with a user " +
			"name and an access token if the repository is private"
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return "The address of the git repository must begin with https://, such as https://git.example.com/team/shop.git"
	case u.User != nil:
		return "The address of the git repository must not contain a user name or password: they have their own fields"
	case u.RawQuery != "" || u.Fragment != "":
		return "The address of the git repository must not have a query or a fragment"
	}
	return ""
}

// validGitRef reports whether a text may be the name of a branch, by the rules of git.
func validGitRef(name string) bool {
	if name == "" {
		return true
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") ||
		strings.Contains(name, "@{") || strings.HasSuffix(name, "/") || strings.HasPrefix(name, "/") {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`~^:?*[\`, r)
	})
}
