package access

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// ClientScopes are the scopes that allow seeing clients; one of them is enough.
var ClientScopes = []string{"clients.read", "clients.admin", "uaa.admin"}

// systemClients are the clients that Ingot itself or every cf client uses, with their purpose.
var systemClients = map[string]string{
	"admin": "administrates the authorization server", "cf": "is what cf uses to log in",
	"ssh-proxy": "is the ssh gateway", page.ClientID: "is this console",
	"ingot-platform": "is the platform", "ingot-notifications": "is the notification service",
}

// grantTypes are the grant types that a client can have.
var grantTypes = []string{"client_credentials", "authorization_code", "refresh_token", "password",
	"urn:ietf:params:oauth:grant-type:jwt-bearer"}

type oauthClient cfapi.OAuthClient

// System says what Ingot uses the client for; "" if it does not.
func (o oauthClient) System() string { return systemClients[o.ID] }

// link is the address of its page.
func (o oauthClient) link() string { return page.Path + "/clients/" + url.PathEscape(o.ID) }

type clientsData struct {
	Clients  []oauthClient
	Query    string
	Pager    page.Pager
	MayWrite bool
	Command  string
}

// clients is GET /console/clients: ?q= part of an id.
func (c pages) clients(r *http.Request, s *page.Session) (any, error) {
	data := clientsData{Query: strings.TrimSpace(r.URL.Query().Get("q")), MayWrite: mayWriteClients(s),
		Command: page.Command("ingot", "clients")}
	filter := ""
	if data.Query != "" {
		filter = "client_id co " + scimText(data.Query)
	}
	var err error
	data.Clients, data.Pager, err = scimPage[oauthClient](c.Auth(r, s), r, "/oauth/clients", filter,
		"client_id", "clients")
	return data, err
}

func mayWriteClients(s *page.Session) bool {
	return s.Has("clients.write", "clients.admin", "uaa.admin")
}

type clientData struct {
	Client    oauthClient
	New       bool
	MayWrite  bool
	MaySecret bool // set secrets
	Grants    []page.Option
	Form      clientForm
	Commands  struct{ Create, Update, Secret, Delete string }
}

// clientForm is what a form of a client contains.
type clientForm struct{ ID, Name, Scopes, Authorities, Redirects, Access, Refresh string }

// client is GET /console/clients/ID.
func (c pages) client(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.loadClient(r, s)
	if err != nil {
		return err
	}
	return c.showClient(w, r, s, http.StatusOK, "", data)
}

// newClient is GET /console/clients/new.
func (c pages) newClient(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if !mayWriteClients(s) {
		return fault.New(fault.Forbidden, "A new client needs one of the scopes clients.write and clients.admin.")
	}
	data := newClientData(s, oauthClient{GrantTypes: []string{"client_credentials"}})
	data.New = true
	return c.showClient(w, r, s, http.StatusOK, "", data)
}

func newClientData(s *page.Session, o oauthClient) *clientData {
	d := &clientData{Client: o, MayWrite: mayWriteClients(s), MaySecret: s.Has("clients.admin", "uaa.admin")}
	for _, g := range grantTypes {
		d.Grants = append(d.Grants, page.Option{Value: g, Label: g, Chosen: slices.Contains(o.GrantTypes, g)})
	}
	d.Form = clientForm{
		ID: o.ID, Name: o.Name, Scopes: strings.Join(o.Scopes, "\n"), Authorities: strings.Join(o.Authorities, "\n"),
		Redirects: strings.Join(o.RedirectURIs, "\n"),
	}
	if n := o.AccessSeconds; n != nil && *n > 0 {
		d.Form.Access = strconv.Itoa(*n)
	}
	if n := o.RefreshSeconds; n != nil && *n > 0 {
		d.Form.Refresh = strconv.Itoa(*n)
	}
	id := cmp.Or(o.ID, "CLIENT")
	d.Commands.Create = page.Command("ingot", "create-client", id, "--authorities", "LIST", "--scopes", "LIST")
	d.Commands.Update = page.Command("ingot", "update-client", id, "--authorities", "LIST", "--scopes", "LIST")
	d.Commands.Secret, d.Commands.Delete = page.Command("ingot", "set-client-secret", id),
		page.Command("ingot", "delete-client", id)
	return d
}

func (c pages) loadClient(r *http.Request, s *page.Session) (*clientData, error) {
	var o oauthClient
	if err := c.Auth(r, s).Get(&o, "/oauth/clients/"+url.PathEscape(web.Param(r, "id")), nil); err != nil {
		return nil, err
	}
	return newClientData(s, o), nil
}

func (c pages) showClient(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	data *clientData) error {
	title := "Client " + data.Client.ID
	if data.New {
		title = "Create a client"
	}
	return c.Show(w, r, s, status, "client.html", page.Page{
		Title: title, Section: "clients", Data: data, Problem: problem,
		Crumbs: []page.Crumb{{Name: "Clients", Link: page.Path + "/clients"}},
	})
}

// clientFailed shows the form of a client again, with a problem and what was typed.
func (c pages) clientFailed(w http.ResponseWriter, r *http.Request, s *page.Session, data *clientData,
	err error) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	if form := r.PostForm; form.Has("scopes") {
		data.Form = clientForm{form.Get("id"), form.Get("name"), form.Get("scopes"), form.Get("authorities"),
			form.Get("redirects"), form.Get("access"), form.Get("refresh")}
		for i := range data.Grants {
			data.Grants[i].Chosen = slices.Contains(form["grant"], data.Grants[i].Value)
		}
	}
	return c.showClient(w, r, s, status, text, data)
}

// clientBody sets the members of a form in a client, and leaves others.
func clientBody(form url.Values, to map[string]any) error {
	for member, field := range map[string]string{"scope": "scopes", "authorities": "authorities",
		"redirect_uri": "redirects"} {
		to[member] = append([]string{}, page.Words(form.Get(field))...)
	}
	to["authorized_grant_types"] = append([]string{}, form["grant"]...)
	if name := strings.TrimSpace(form.Get("name")); name != "" {
		to["name"] = name
	}
	for member, field := range map[string]string{"access_token_validity": "access", "refresh_token_validity": "refresh"} {
		text := strings.TrimSpace(form.Get(field))
		delete(to, member)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fault.New(fault.Unprocessable, "The validity of tokens must be a number of seconds, not %.50q.", text)
		}
		to[member] = n
	}
	return nil
}

// createClient is POST /console/clients/new. The secret is generated, and shown once.
func (c pages) createClient(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data := newClientData(s, oauthClient{})
	data.New = true
	id, secret := strings.TrimSpace(r.PostForm.Get("id")), page.RandomText()
	body := map[string]any{"client_id": id, "client_secret": secret}
	public := r.PostForm.Get("public") != ""
	if public {
		delete(body, "client_secret")
		body["allowpublic"] = true
	}
	err := clientBody(r.PostForm, body)
	if err == nil {
		err = c.Auth(r, s).Do(http.MethodPost, "/oauth/clients", body, nil)
	}
	if err != nil {
		return c.clientFailed(w, r, s, data, err)
	}
	if public {
		return page.GoTo(w, r, "/clients/"+url.PathEscape(id), "client")
	}
	return c.showSecret(w, r, s, "clients", secretData{
		Title: "The client " + id + " was created", Label: "Secret", Value: secret,
		Note:    "Store it where the client finds it.",
		Command: page.Command("ingot", "create-client", id, "--secret", "SECRET"),
		Back:    page.Crumb{Name: id, Link: page.Path + "/clients/" + url.PathEscape(id)},
	})
}

// changeable returns the client of the path. Changes to one that Ingot itself uses need its id
// as confirm.
func (c pages) changeable(r *http.Request, s *page.Session) (*clientData, error) {
	data, err := c.loadClient(r, s)
	if err == nil && data.Client.System() != "" {
		err = page.Confirmed(r, data.Client.ID)
	}
	return data, err
}

// updateClient is POST /console/clients/ID/update.
func (c pages) updateClient(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.changeable(r, s)
	call, path := c.Auth(r, s), "/oauth/clients/"+url.PathEscape(web.Param(r, "id"))
	// All members, because those that are left out would be reset.
	var raw map[string]json.RawMessage
	if err == nil {
		err = call.Get(&raw, path, nil)
	}
	body := map[string]any{}
	for key, value := range raw {
		body[key] = value
	}
	delete(body, "lastModified")
	if err == nil {
		err = clientBody(r.PostForm, body)
	}
	if err == nil {
		err = call.Do(http.MethodPut, path, body, nil)
	}
	if err != nil && data != nil {
		return c.clientFailed(w, r, s, data, err)
	}
	if err != nil {
		return err
	}
	return page.GoTo(w, r, "/clients/"+url.PathEscape(web.Param(r, "id")), "client")
}

// rotateSecret is POST /console/clients/ID/secret, with the field mode: UPDATE replaces the
// secret, ADD adds one, DELETE deletes the older of two.
func (c pages) rotateSecret(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.changeable(r, s)
	id, mode, secret := web.Param(r, "id"), r.PostForm.Get("mode"), page.RandomText()
	body := map[string]string{"clientId": id, "changeMode": mode}
	if mode != "DELETE" {
		body["secret"] = secret
	}
	if err == nil {
		err = c.Auth(r, s).Do(http.MethodPut, "/oauth/clients/"+url.PathEscape(id)+"/secret", body, nil)
	}
	switch {
	case err != nil && data != nil:
		return c.clientFailed(w, r, s, data, err)
	case err != nil:
		return err
	case mode == "DELETE":
		return page.GoTo(w, r, "/clients/"+url.PathEscape(id), "client")
	}
	return c.showSecret(w, r, s, "clients", secretData{
		Title: "The client " + id + " has a new secret", Label: "Secret", Value: secret,
		Note:    "Store it where the client finds it.",
		Command: page.Command("ingot", "set-client-secret", id), Back: page.Crumb{Name: id, Link: page.Path + "/clients/" +
			url.PathEscape(id)},
	})
}

// deleteClient is POST /console/clients/ID/delete, with the id as confirm.
func (c pages) deleteClient(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.loadClient(r, s)
	if err != nil {
		return err
	}
	if err = page.Confirmed(r, data.Client.ID); err == nil {
		err = c.Auth(r, s).Do(http.MethodDelete, "/oauth/clients/"+url.PathEscape(data.Client.ID), nil, nil)
	}
	if err != nil {
		return c.clientFailed(w, r, s, data, err)
	}
	return page.GoTo(w, r, "/clients", "noclient")
}
