package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// userScopes are the scopes of which one is needed to see users.
var userScopes = []string{"scim.read", "uaa.admin"}

// userRoutes adds the pages of the authorization server's users.
func (c *Console) userRoutes(g area) {
	g.pages(c, map[string]handler{"/users": c.users, "/users/{id}": c.user})
	g.changes(c, map[string]handler{
		"/users/create":             c.newUser,
		"/users/{id}/active":        c.setActive,
		"/users/{id}/unlock":        c.unlock,
		"/users/{id}/password":      c.resetPassword,
		"/users/{id}/groups/add":    c.addToGroup,
		"/users/{id}/groups/remove": c.removeFromGroup,
	})
}

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
	Pager    pager
	MayWrite bool
	Typed    url.Values
	Command  string
}

func mayWriteUsers(s *Session) bool { return s.has("scim.write", "uaa.admin") }

// users is GET /console/users: ?q= part of a name or address.
func (c *Console) users(w http.ResponseWriter, r *http.Request, s *Session) error {
	return c.showUsers(w, r, s, http.StatusOK, "")
}

func (c *Console) showUsers(w http.ResponseWriter, r *http.Request, s *Session, status int, problem string) error {
	data := usersData{Query: strings.TrimSpace(r.URL.Query().Get("q")), MayWrite: mayWriteUsers(s), Typed: r.PostForm, Command: command("cf", "create-user", "USER", "PASSWORD")}
	filter := ""
	if data.Query != "" {
		filter = "userName co " + scimText(data.Query) + " or emails.value co " + scimText(data.Query)
	}
	var err error
	data.Users, data.Pager, err = scimPage[authUser](c.auth(r, s), r, "/Users", filter, "userName", "users")
	if err != nil {
		return err
	}
	data.Pager.at = Path + "/users"
	return c.show(w, r, s, status, "users.html", page{Title: "Users", Section: "users", Data: data, Problem: problem})
}

// newUser is POST /console/users/create, with the fields username and email.
func (c *Console) newUser(w http.ResponseWriter, r *http.Request, s *Session) error {
	name := strings.TrimSpace(r.PostForm.Get("username"))
	password, err := c.createUser(r, s, name, strings.TrimSpace(r.PostForm.Get("email")))
	if err == nil && password == "" {
		err = fault.New(fault.Conflict, "The user %s already exists.", name)
	}
	if err != nil {
		status, text, ok := problemOf(err)
		if !ok {
			return err
		}
		return c.showUsers(w, r, s, status, text)
	}
	return c.showSecret(w, r, s, "users", secretData{
		Title: "The user " + name + " was created", Label: "Password", Value: password, Command: command("cf", "create-user", name, "PASSWORD"),
		Note: "Give it to the user over a channel that you trust.", Back: crumb{"Users", Path + "/users?q=" + url.QueryEscape(name)},
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
func (c *Console) user(w http.ResponseWriter, r *http.Request, s *Session) error {
	return c.showUser(w, r, s, http.StatusOK, "")
}

func (c *Console) showUser(w http.ResponseWriter, r *http.Request, s *Session, status int, problem string) error {
	call, path := c.auth(r, s), "/Users/"+url.PathEscape(web.Param(r, "id"))
	data := userData{MayWrite: mayWriteUsers(s), Self: s.UserID == web.Param(r, "id")}
	var locked struct {
		Locked bool `json:"locked"`
	}
	var groups scimList[group]
	err := together(
		func() error { return call.get(&data.User, path, nil) },
		func() error { return call.get(&locked, path+"/status", nil) },
		func() error {
			return call.get(&groups, "/Groups", url.Values{"attributes": {"id,displayName"}, "sortBy": {"displayName"}, "count": {"500"}})
		},
	)
	if err != nil {
		return err
	}
	data.Locked = locked.Locked
	data.MayReset = s.has("uaa.admin") && !data.Self && data.User.Origin == "uaa"
	data.Groups = slices.DeleteFunc(groups.Resources, func(g group) bool {
		return slices.ContainsFunc(data.User.Groups, func(have userGroup) bool { return have.ID == g.ID })
	})
	if c.options.AuthURL == "" { // cf curl calls the server of the platform
		data.Commands = map[string]string{
			"active":   command("cf", "curl", "-X", "PATCH", path, "-H", "If-Match: *", "-d", `{"active":`+jsonText(!data.User.Active)+`}`),
			"unlock":   command("cf", "curl", "-X", "PATCH", path+"/status", "-d", `{"locked":false}`),
			"password": command("cf", "curl", "-X", "PUT", path+"/password", "-d", `{"password":"PASSWORD"}`),
			"remove":   command("cf", "curl", "-X", "DELETE", "/Groups/GROUP/members/"+data.User.ID),
			"group":    command("cf", "curl", "-X", "POST", "/Groups/GROUP/members", "-d", `{"value":"`+data.User.ID+`"}`),
		}
	}
	return c.show(w, r, s, status, "user.html", page{
		Title: cmp.Or(data.User.UserName, data.User.ID), Section: "users", Data: data, Problem: problem, Crumbs: []crumb{{"Users", Path + "/users"}},
	})
}

// userDone returns to the page of a user after a change, or shows why it failed.
func (c *Console) userDone(w http.ResponseWriter, r *http.Request, s *Session, said string, err error) error {
	if status, text, ok := problemOf(err); ok {
		return c.showUser(w, r, s, status, text)
	}
	if err != nil {
		return err
	}
	return goTo(w, r, "/users/"+url.PathEscape(web.Param(r, "id")), said)
}

// setActive is POST /console/users/ID/active, with the field active: true or false.
func (c *Console) setActive(w http.ResponseWriter, r *http.Request, s *Session) error {
	call, active := c.auth(r, s), r.PostForm.Get("active") == "true"
	call.header = http.Header{"If-Match": {"*"}}
	err := call.do(http.MethodPatch, "/Users/"+url.PathEscape(web.Param(r, "id")), map[string]bool{"active": active}, nil)
	said := "deactivated"
	if active {
		said = "activated"
	}
	return c.userDone(w, r, s, said, err)
}

// unlock is POST /console/users/ID/unlock.
func (c *Console) unlock(w http.ResponseWriter, r *http.Request, s *Session) error {
	err := c.auth(r, s).do(http.MethodPatch, "/Users/"+url.PathEscape(web.Param(r, "id"))+"/status", map[string]bool{"locked": false}, nil)
	return c.userDone(w, r, s, "unlocked", err)
}

// resetPassword is POST /console/users/ID/password. The new password is shown once.
func (c *Console) resetPassword(w http.ResponseWriter, r *http.Request, s *Session) error {
	path, password := "/Users/"+url.PathEscape(web.Param(r, "id")), randomText()[:24]
	if err := c.auth(r, s).do(http.MethodPut, path+"/password", map[string]string{"password": password}, nil); err != nil {
		return c.userDone(w, r, s, "", err)
	}
	return c.showSecret(w, r, s, "users", secretData{
		Title: "The user has a new password", Label: "Password", Value: password, Command: command("cf", "curl", "-X", "PUT", path+"/password", "-d", `{"password":"PASSWORD"}`),
		Note: "Give it to the user over a channel that you trust. All sessions of the user have ended.", Back: crumb{"the user", Path + "/users/" + url.PathEscape(web.Param(r, "id"))},
	})
}

// addToGroup is POST /console/users/ID/groups/add, with the field group, an id.
func (c *Console) addToGroup(w http.ResponseWriter, r *http.Request, s *Session) error {
	body := map[string]string{"value": web.Param(r, "id"), "type": "USER", "origin": "uaa"}
	err := c.auth(r, s).do(http.MethodPost, "/Groups/"+url.PathEscape(r.PostForm.Get("group"))+"/members", body, nil)
	return c.userDone(w, r, s, "group", err)
}

// removeFromGroup is POST /console/users/ID/groups/remove, with the field group.
func (c *Console) removeFromGroup(w http.ResponseWriter, r *http.Request, s *Session) error {
	err := c.auth(r, s).do(http.MethodDelete, "/Groups/"+url.PathEscape(r.PostForm.Get("group"))+"/members/"+url.PathEscape(web.Param(r, "id")), nil, nil)
	return c.userDone(w, r, s, "group", err)
}
