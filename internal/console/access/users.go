package access

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// UserScopes are the scopes that allow seeing users; one of them is enough.
var UserScopes = []string{"scim.read", "uaa.admin"}

type authUser struct {
	ID       string `json:"id"`
	UserName string `json:"userName"`
	Origin   string `json:"origin"`
	Active   bool   `json:"active"`
	Emails   []struct {
		Value string `json:"value"`
	} `json:"emails"`
	Groups    []userGroup `json:"groups"`
	LastLogin int64       `json:"lastLogonTime"`
	Meta      struct {
		Created time.Time `json:"created"`
	} `json:"meta"`
}

type userGroup struct {
	ID   string `json:"value"`
	Name string `json:"display"`
}

// email is the address of the user.
func (u authUser) email() string {
	if len(u.Emails) == 0 {
		return ""
	}
	return u.Emails[0].Value
}

// login is the time of the last login; zero if there was none.
func (u authUser) login() time.Time {
	if u.LastLogin == 0 {
		return time.Time{}
	}
	return time.UnixMilli(u.LastLogin)
}

type usersData struct {
	Users    []authUser
	Query    string
	Pager    page.Pager
	MayWrite bool
	Typed    url.Values
	Command  string
}

func mayWriteUsers(s *page.Session) bool { return s.Has("scim.write", "uaa.admin") }

// users is GET /console/users: ?q= part of a name or address.
func (c pages) users(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showUsers(w, r, s, http.StatusOK, "")
}

func (c pages) showUsers(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string) error {
	data := usersData{Query: strings.TrimSpace(r.URL.Query().Get("q")), MayWrite: mayWriteUsers(s), Typed: r.PostForm,
		Command: page.Command("cf", "create-user", "USER", "PASSWORD")}
	filter := ""
	if data.Query != "" {
		filter = "userName co " + scimText(data.Query) + " or emails.value co " + scimText(data.Query)
	}
	var err error
	data.Users, data.Pager, err = scimPage[authUser](c.Auth(r, s), r, "/Users", filter, "userName", "users")
	if err != nil {
		return err
	}
	data.Pager.At = page.Path + "/users"
	return c.Show(w, r, s, status, "users.html", page.Page{Title: "Users", Section: "users", Data: data, Problem: problem})
}

// newUser is POST /console/users/create, with the fields username and email.
func (c pages) newUser(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	name := strings.TrimSpace(r.PostForm.Get("username"))
	password, err := c.createUser(r, s, name, strings.TrimSpace(r.PostForm.Get("email")))
	if err == nil && password == "" {
		err = fault.New(fault.Conflict, "The user %s already exists.", name)
	}
	if err != nil {
		status, text, ok := page.ProblemOf(err)
		if !ok {
			return err
		}
		return c.showUsers(w, r, s, status, text)
	}
	return c.showSecret(w, r, s, "users", secretData{
		Title: "The user " + name + " was created", Label: "Password", Value: password,
		Command: page.Command("cf", "create-user", name, "PASSWORD"),
		Note:    "Give it to the user over a channel that you trust.", Back: page.Crumb{Name: "Users", Link: page.Path +
			"/users?q=" + url.QueryEscape(name)},
	})
}

type userData struct {
	User     authUser
	Locked   bool
	Groups   []group // to add the user to
	MayWrite bool
	MayReset bool // set the password
	Self     bool
	Commands map[string]string
}

type group struct {
	ID   string `json:"id"`
	Name string `json:"displayName"`
}

// user is GET /console/users/ID.
func (c pages) user(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showUser(w, r, s, http.StatusOK, "")
}

func (c pages) showUser(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string) error {
	call, path := c.Auth(r, s), "/Users/"+url.PathEscape(web.Param(r, "id"))
	data := userData{MayWrite: mayWriteUsers(s), Self: s.UserID == web.Param(r, "id")}
	var locked struct {
		Locked bool `json:"locked"`
	}
	var groups cfapi.SCIMList[group]
	err := page.Together(
		func() error { return call.Get(&data.User, path, nil) },
		func() error { return call.Get(&locked, path+"/status", nil) },
		func() error {
			return call.Get(&groups, "/Groups", url.Values{"attributes": {"id,displayName"}, "sortBy": {"displayName"},
				"count": {"500"}})
		},
	)
	if err != nil {
		return err
	}
	data.Locked = locked.Locked
	data.MayReset = s.Has("uaa.admin") && !data.Self && data.User.Origin == "uaa"
	data.Groups = slices.DeleteFunc(groups.Resources, func(g group) bool {
		return slices.ContainsFunc(data.User.Groups, func(have userGroup) bool { return have.ID == g.ID })
	})
	if c.Options.AuthURL == "" { // cf curl calls the server of the platform
		data.Commands = map[string]string{
			"active": page.Command("cf", "curl", "-X", "PATCH", path, "-H", "If-Match: *", "-d",
				`{"active":`+strconv.FormatBool(!data.User.Active)+`}`),
			"unlock":   page.Command("cf", "curl", "-X", "PATCH", path+"/status", "-d", `{"locked":false}`),
			"password": page.Command("cf", "curl", "-X", "PUT", path+"/password", "-d", `{"password":"PASSWORD"}`),
			"remove":   page.Command("cf", "curl", "-X", "DELETE", "/Groups/GROUP/members/"+data.User.ID),
			"group":    page.Command("cf", "curl", "-X", "POST", "/Groups/GROUP/members", "-d", `{"value":"`+data.User.ID+`"}`),
		}
	}
	return c.Show(w, r, s, status, "user.html", page.Page{
		Title: cmp.Or(data.User.UserName, data.User.ID), Section: "users", Data: data, Problem: problem,
		Crumbs: []page.Crumb{{Name: "Users", Link: page.Path + "/users"}},
	})
}

// userDone returns to the page of a user after a change, or shows why it failed.
func (c pages) userDone(w http.ResponseWriter, r *http.Request, s *page.Session, said string, err error) error {
	if err != nil {
		return c.userFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/users/"+url.PathEscape(web.Param(r, "id")), said)
}

// userFailed shows the page of a user again, with a problem.
func (c pages) userFailed(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	if status, text, ok := page.ProblemOf(err); ok {
		return c.showUser(w, r, s, status, text)
	}
	return err
}

// setActive is POST /console/users/ID/active, with the field active: true or false.
func (c pages) setActive(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	active := r.PostForm.Get("active") == "true"
	err := c.Auth(r, s).With(map[string]string{"If-Match": "*"}, http.MethodPatch,
		"/Users/"+url.PathEscape(web.Param(r, "id")), map[string]bool{"active": active}, nil)
	said := "deactivated"
	if active {
		said = "activated"
	}
	return c.userDone(w, r, s, said, err)
}

// resetPassword is POST /console/users/ID/password. The new password is shown once.
func (c pages) resetPassword(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	path, password := "/Users/"+url.PathEscape(web.Param(r, "id")), page.RandomText()[:24]
	if err := c.Auth(r, s).Do(http.MethodPut, path+"/password", map[string]string{"password": password}, nil); err != nil {
		return c.userDone(w, r, s, "", err)
	}
	return c.showSecret(w, r, s, "users", secretData{
		Title: "The user has a new password", Label: "Password", Value: password, Command: page.Command("cf", "curl", "-X",
			"PUT", path+"/password", "-d", `{"password":"PASSWORD"}`),
		Note: "Give it to the user over a channel that you trust. All sessions of the user have ended.",
		Back: page.Crumb{Name: "the user", Link: page.Path + "/users/" + url.PathEscape(web.Param(r, "id"))},
	})
}

// addToGroup is POST /console/users/ID/groups/add, with the field group, an id.
func (c pages) addToGroup(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	body := map[string]string{"value": web.Param(r, "id"), "type": "USER", "origin": "uaa"}
	err := c.Auth(r, s).Do(http.MethodPost, "/Groups/"+url.PathEscape(r.PostForm.Get("group"))+"/members", body, nil)
	return c.userDone(w, r, s, "group", err)
}

// FindUsers returns users whose name contains a text: all for those who may see them, and
// otherwise those of the same organizations.
func FindUsers(c *page.Console, r *http.Request, s *page.Session, text string) ([]cfapi.User, error) {
	var list []cfapi.User
	if !s.Has(UserScopes...) {
		found, err := page.All[cfapi.User](c.Platform(r, s), "/v3/users", nil)
		list = slices.DeleteFunc(found, func(u cfapi.User) bool { return !page.Matches(u.Name, text) })
		return list[:min(len(list), page.PerPage)], err
	}
	var l cfapi.SCIMList[authUser]
	err := c.Auth(r, s).Get(&l, "/Users", url.Values{"filter": {"userName co " + scimText(text)},
		"attributes": {"id,userName"}, "count": {strconv.Itoa(page.PerPage)}})
	for _, u := range l.Resources {
		list = append(list, cfapi.User{GUID: u.ID, Name: u.UserName})
	}
	return list, err
}
