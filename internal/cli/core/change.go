package core

import (
	"context"
	"fmt"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
)

// Send sends a change and waits until it is done.
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

// Change sends a change, waits until it is done, and shows that it succeeded; pairs are the
// names and values of its JSON.
func (s *Session) Change(ctx context.Context, method, path string, body any, pairs ...any) (Result, error) {
	if err := s.Send(ctx, method, path, body); err != nil {
		return nil, err
	}
	return s.Done(pairs...)
}

// Create creates a resource. If the API replies with the text taken, the resource exists, which is
// not an error.
func (s *Session) Create(
	ctx context.Context, kind, name, path string, body map[string]any, taken string,
) (Result, error) {
	var t cfapi.Thing
	reply, err := s.API.Post(ctx, path, body, &t)
	if taken != "" && client.Says(err, taken) {
		return s.Exists(kind, kind, name), nil
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

// Exists shows that a resource already exists, which is not a failure.
func (s *Session) Exists(what, kind, name string) *Made {
	s.Say("%s %s already exists.", what, name)
	s.OK()
	return &Made{Kind: kind, Name: name, Existed: true}
}

// Absent shows that a resource to delete does not exist, which is not a failure.
func (s *Session) Absent(what, kind, name string) (Result, error) {
	s.Say("%s %s does not exist.", what, name)
	s.OK()
	return &Removed{Kind: kind, Name: name}, nil
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
	question := fmt.Sprintf("Really delete the %s %s and everything in it", kind, name)
	if err := s.Confirm(ctx, force, question); err != nil {
		return nil, err
	}
	s.Acting("Deleting "+kind+" %s", name)
	t, err := s.Thing(ctx, kind, path, name, q)
	if IsNotFound(err) {
		return s.Absent(kind, kind, name)
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
