"""Jobs of other schedulers: their files as job definitions, with a report of what is lost.

Each format has a module, which turns text into drafts of jobs and notes.
`rota.client.imports.formats` has one row for each.
"""
