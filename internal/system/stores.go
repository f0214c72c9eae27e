package system

import (
	"context"

	"ingot/internal/api"
	"ingot/internal/db/platformdb"
	"ingot/internal/uaaclient"
)

// platformStore hands the rows of the platform's tables to its API. Neither
// knows the other's types.
type platformStore struct{ rows *platformdb.Store }

func (s platformStore) CreateUser(ctx context.Context, u *api.User) error {
	return s.rows.CreateUser(ctx, (*platformdb.User)(u))
}

func (s platformStore) User(ctx context.Context, guid string) (*api.User, error) {
	u, err := s.rows.User(ctx, guid)
	return (*api.User)(u), err
}

func (s platformStore) DeleteUser(ctx context.Context, guid string, job *api.Job) error {
	row := &platformdb.Job{
		GUID: job.GUID, Operation: job.Operation, State: string(job.State),
		Warnings: job.Warnings, Created: job.Created, Updated: job.Updated,
	}
	for _, e := range job.Errors {
		row.Errors = append(row.Errors, platformdb.JobError(e))
	}
	return s.rows.DeleteUser(ctx, guid, row)
}

func (s platformStore) Job(ctx context.Context, guid string) (*api.Job, error) {
	row, err := s.rows.Job(ctx, guid)
	if err != nil {
		return nil, err
	}
	job := &api.Job{
		GUID: row.GUID, Operation: row.Operation, State: api.JobState(row.State),
		Warnings: row.Warnings, Created: row.Created, Updated: row.Updated,
	}
	for _, e := range row.Errors {
		job.Errors = append(job.Errors, api.JobError(e))
	}
	return job, nil
}

// directory lets the API ask the authorization server for names.
type directory struct{ client *uaaclient.Client }

func (d directory) UsersByID(ctx context.Context, ids []string) (map[string]api.DirectoryUser, error) {
	found, err := d.client.UsersByID(ctx, ids)
	users := make(map[string]api.DirectoryUser, len(found))
	for id, u := range found {
		users[id] = api.DirectoryUser{UserName: u.UserName, Origin: u.Origin}
	}
	return users, err
}
