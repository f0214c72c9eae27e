package cfapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"time"
)

// GUID refers to a resource.
type GUID struct {
	GUID string `json:"guid"`
}

// To is a relationship to one other resource.
type To struct {
	Data *GUID `json:"data"`
}

// GUID returns the guid of the related resource, or "".
func (t To) GUID() string {
	if t.Data == nil {
		return ""
	}
	return t.Data.GUID
}

// Relate returns a relationship to a resource.
func Relate(guid string) To { return To{&GUID{guid}} }

// ToMany is a relationship to several resources.
type ToMany struct {
	Data []GUID `json:"data"`
}

// RelateAll returns a relationship to several resources.
func RelateAll(guids ...string) ToMany {
	all := []GUID{}
	for _, guid := range guids {
		all = append(all, GUID{guid})
	}
	return ToMany{all}
}

// List is a page of a list, with the resources that it includes.
type List[T, I any] struct {
	Resources  []T `json:"resources"`
	Included   I   `json:"included"`
	Pagination struct {
		Total int `json:"total_results"`
		Pages int `json:"total_pages"`
		Next  *struct {
			Href string `json:"href"`
		} `json:"next"`
	} `json:"pagination"`
}

// Thing has the fields that all resources have. An organization needs no others.
type Thing struct {
	GUID      string    `json:"guid"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// ID returns the guid.
func (t Thing) ID() string { return t.GUID }

// Title returns the name.
func (t Thing) Title() string { return t.Name }

// Names returns the names of resources by their guids.
func Names[T interface {
	ID() string
	Title() string
}](all []T) map[string]string {
	names := make(map[string]string, len(all))
	for _, one := range all {
		names[one.ID()] = one.Title()
	}
	return names
}

// Space is a space.
type Space struct {
	Thing
	Relationships struct {
		Organization To `json:"organization"`
		Quota        To `json:"quota"`
	} `json:"relationships"`
}

// Domain is a domain, shared unless it belongs to an organization.
type Domain struct {
	Thing
	Internal      bool     `json:"internal"`
	Protocols     []string `json:"supported_protocols"`
	Relationships struct {
		Organization To `json:"organization"`
	} `json:"relationships"`
}

// User is a user as the platform knows it.
type User struct {
	GUID   string `json:"guid"`
	Name   string `json:"presentation_name"`
	Origin string `json:"origin"`
}

// ID returns the guid.
func (u User) ID() string { return u.GUID }

// Title returns the name.
func (u User) Title() string { return u.Name }

// Role is a role of a user in a space or an organization.
type Role struct {
	GUID          string `json:"guid"`
	Type          string `json:"type"`
	Relationships struct {
		User         To `json:"user"`
		Space        To `json:"space"`
		Organization To `json:"organization"`
	} `json:"relationships"`
}

// Quota limits orgs or spaces. A nil limit is unlimited.
type Quota struct {
	GUID string `json:"guid"`
	Name string `json:"name"`
	Apps struct {
		Memory    *int64 `json:"total_memory_in_mb"`
		Process   *int64 `json:"per_process_memory_in_mb"`
		Instances *int64 `json:"total_instances"`
		Tasks     *int64 `json:"per_app_tasks"`
		LogRate   *int64 `json:"log_rate_limit_in_bytes_per_second"`
	} `json:"apps"`
	Services struct {
		Paid      bool   `json:"paid_services_allowed"`
		Instances *int64 `json:"total_service_instances"`
		Keys      *int64 `json:"total_service_keys"`
	} `json:"services"`
	Routes struct {
		Total *int64 `json:"total_routes"`
		Ports *int64 `json:"total_reserved_ports"`
	} `json:"routes"`
}

// Title returns the name.
func (q Quota) Title() string { return q.Name }

// Feature is a feature of an app or a space, or a feature flag of the platform.
type Feature struct {
	Enabled bool `json:"enabled"`
}

// Party is the actor, the target or the place of an event.
type Party struct {
	GUID string `json:"guid"`
	Type string `json:"type"`
	Name string `json:"name"`
}

// Event is an audit event.
type Event struct {
	GUID      string          `json:"guid"`
	CreatedAt time.Time       `json:"created_at"`
	Type      string          `json:"type"`
	Actor     Party           `json:"actor"`
	Target    Party           `json:"target"`
	Data      json.RawMessage `json:"data"`
	Space     *Party          `json:"space"`
	Org       *Party          `json:"organization"`
}

// OAuthClient is a client of the authorization server, in UAA's format.
type OAuthClient struct {
	ID             string   `json:"client_id"`
	Name           string   `json:"name,omitempty"`
	GrantTypes     []string `json:"authorized_grant_types"`
	Scopes         []string `json:"scope"`
	Authorities    []string `json:"authorities"`
	RedirectURIs   []string `json:"redirect_uri,omitempty"`
	AutoApprove    any      `json:"autoapprove,omitempty"`
	AccessSeconds  *int     `json:"access_token_validity,omitempty"`
	RefreshSeconds *int     `json:"refresh_token_validity,omitempty"`
	Public         bool     `json:"allowpublic,omitempty"`
	// Secret is a generated secret, which is shown once.
	Secret string `json:"client_secret,omitempty"`
}

// SCIMList is a page of a list of the authorization server.
type SCIMList[T any] struct {
	Resources []T `json:"resources"`
	Total     int `json:"totalResults"`
}

// Add adds the values that are not empty to the body of a request; pairs are names and values.
func Add(body map[string]any, pairs ...any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		value := reflect.ValueOf(pairs[i+1])
		empty := !value.IsValid() || value.IsZero()
		if kind := value.Kind(); kind == reflect.Map || kind == reflect.Slice {
			empty = value.Len() == 0
		}
		if !empty {
			body[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
	}
}

// Filter adds the values that are not empty to a query; pairs are names and values.
func Filter(q url.Values, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
}
