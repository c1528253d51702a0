# As RAILS_LOG_TO_STDOUT does in production: the server has the log.
Rails.logger = ActiveSupport::TaggedLogging.new(ActiveSupport::Logger.new($stdout))
ActiveRecord::Base.logger = ActionController::Base.logger = Rails.logger
