package core

import (
	"context"
	"fmt"
	"net/url"

	"ingot/internal/cli/client"
)

// Send makes a change and waits until it is done.
func (s *Session) Send(ctx context.Context, method, path string, body any) error {
	reply, err := s.API.Do(ctx, client.Call{Method: method, URL: path, Body: body})
	if err != nil {
		return err
	}
	return s.API.Job(ctx, reply)
}

// Done shows that an action succeeded; pairs are the names and values of its JSON.
func (s *Session) Done(pairs ...any) (Result, error) {
	s.OK()
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return s.JSONOnly(&JSONAs{nil, out}), nil
}

// Create makes a resource. One that exists already is no error if the API says taken.
func (s *Session) Create(ctx context.Context, kind, name, path string, body map[string]any,
	taken string) (Result, error) {
	var t client.Thing
	reply, err := s.API.Post(ctx, path, body, &t)
	if taken != "" && client.Says(err, taken) {
		s.Say("%s %s already exists.", kind, name)
		s.OK()
		return &Made{kind, name, "", true}, nil
	}
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &Made{kind, name, t.GUID, false}, nil
}

// RelateAll returns relationships to several resources, as JSON.
func RelateAll(guids ...string) map[string]any {
	all := []map[string]string{}
	for _, g := range guids {
		all = append(all, map[string]string{"guid": g})
	}
	return map[string]any{"data": all}
}

// Link returns the address of a component of the platform.
func (s *Session) Link(ctx context.Context, name, what string) (string, error) {
	root, err := s.API.Discover(ctx)
	if err != nil {
		return "", err
	}
	if at := root.Href(name); at != "" {
		return at, nil
	}
	return "", &Problem{What: "This platform has no " + what + ".", Why: "the API at " + s.Config.API +
		" does not advertise one"}
}

// DeleteNamed deletes a resource that is identified by its name alone.
func (s *Session) DeleteNamed(ctx context.Context, force bool, kind, name, path string, q url.Values) (Result, error) {
	if !force {
		if err := s.Confirm(ctx, fmt.Sprintf("Really delete the %s %s and everything in it", kind, name)); err != nil {
			return nil, err
		}
	}
	s.Say("Deleting %s %s as %s...", kind, s.Out.Bold(name), s.Out.Bold(s.API.User().Name()))
	t, err := Named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
	if IsNotFound(err) {
		s.Say("%s %s does not exist.", kind, name)
		s.OK()
		return &Removed{Kind: kind, Name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	s.Progress.Step("Deleting "+name, 0)
	if err := s.API.Delete(ctx, path+"/"+t.GUID); err != nil {
		return nil, err
	}
	s.OK()
	return &Removed{Kind: kind, Name: name, Gone: true}, nil
}
