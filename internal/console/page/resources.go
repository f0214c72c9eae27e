package page

import (
	"strings"
	"time"
)

// Resources of the platform API, with the fields that pages show.

// Relation is a reference to a resource.
type Relation struct {
	Data struct {
		GUID string `json:"guid"`
	} `json:"data"`
}

// Organization is an organization.
type Organization struct {
	GUID string `json:"guid"`
	Name string `json:"name"`
}

// Space is a space.
type Space struct {
	GUID          string `json:"guid"`
	Name          string `json:"name"`
	Relationships struct {
		Organization Relation `json:"organization"`
	} `json:"relationships"`
}

// App is an app.
type App struct {
	GUID      string    `json:"guid"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Lifecycle struct {
		Type string `json:"type"`
		Data struct {
			Buildpacks []string `json:"buildpacks"`
			Stack      string   `json:"stack"`
		} `json:"data"`
	} `json:"lifecycle"`
	Relationships struct {
		Space Relation `json:"space"`
	} `json:"relationships"`
}

// Started reports whether the app is meant to run.
func (a *App) Started() bool { return a.State == "STARTED" }

// Role is a role of a user in a space or an organization.
type Role struct {
	Type          string `json:"type"`
	Relationships struct {
		Space        Relation `json:"space"`
		Organization Relation `json:"organization"`
	} `json:"relationships"`
}

// Command returns a line of the cf client. Words that a shell would split are quoted.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("-_./:@%+=,", r))
		}) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// User is a user as the platform knows it.
type User struct {
	GUID string `json:"guid"`
	Name string `json:"presentation_name"`
}
