# The client of the check sends no Origin. That of a browser must be the page's.
Rails.application.config.action_cable.allowed_request_origins = [nil]
